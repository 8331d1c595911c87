-- Write down what a hub did in many steps, such as a sweep. Safe to repeat: the same id is not written twice in a row.
-- Returns {'ok'}
local what = ARGV[1]
local id   = ARGV[2]                 -- of this very event
-- @rest facts                       name, fact, ...
-- @include store
-- @include history
if redis.call('HGET', key_store, 'noted:' .. what) ~= id then
  redis.call('HSET', key_store, 'noted:' .. what, id)
  note(what, unpack(ARGV, 3))
end
return {'ok'}
