-- What holds for all hubs: how labels are matched, when a node is suspect, the caps of the environment. Safe to repeat.
-- Returns {'ok'} | {'kept'} (another hub has said it already)
local options    = ARGV[1]           -- trailing fallback, prefix expansion, wildcards: '1' or '0' each
local timeout_ms = ARGV[2]           -- of nodes
local default    = ARGV[3]           -- the cap of labels without one of their own, 0 for none
local over       = ARGV[4]           -- '1': also when another hub has said something else
local grace_ms   = ARGV[5]           -- how long the holder of a grant that ended early may still believe in it
-- @rest caps                        label, cap, ...
-- @include caps
if opened[5] and over ~= '1' then return {'kept'} end
redis.call('HSET', key_store, 'options', options, 'timeout_ms', timeout_ms, 'grace_ms', grace_ms)
for _, field in ipairs(redis.call('HKEYS', key_caps)) do
  if field == 'env' or string.sub(field, 1, 4) == 'env:' then redis.call('HDEL', key_caps, field) end
end
if default ~= '0' then redis.call('HSET', key_caps, 'env', default) end
for i = 6, #ARGV, 2 do redis.call('HSET', key_caps, 'env:' .. ARGV[i], ARGV[i + 1]) end
note_caps()
return {'ok'}
