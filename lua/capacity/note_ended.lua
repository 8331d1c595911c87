-- After the store was lost: a hub says which grants were given back a moment before, should their nodes not know it yet.
-- Safe to repeat. Returns {'ok'}
-- @rest ended                       per grant: slot, token
-- @include store
-- @include above
local lives_ms = 2 * tonumber(opened[6] or '60000')
for i = 1, #ARGV, 2 do
  if above(ARGV[i + 1], redis.call('GET', key_ended(ARGV[i])) or '0') then
    redis.call('SET', key_ended(ARGV[i]), ARGV[i + 1], 'PX', lives_ms)
  end
end
return {'ok'}
