-- Let the indexes of a pool label say what there is. Safe to repeat. Returns {'ok'}
local label    = ARGV[1]
local segments = ARGV[2]             -- of the index it was found in
-- @include pool
if redis.call('EXISTS', key_pool_slots(label)) == 1 then
  redis.call('ZADD', key_pools, 0, label)
else
  redis.call('ZREM', key_pools, label)
end
redis.call('ZREM', key_open_pools(segments), label)
if redis.call('EXISTS', key_available(label)) == 1 then open_pool(label) else close_pool(label) end
return {'ok'}
