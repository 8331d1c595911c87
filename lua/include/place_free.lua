-- @include pool
-- Put a slot that is in no list at the tail of its pool, or hold it back while its node drains.
-- Every path that frees a slot ends here. Returns 'free' | 'held'.
local function place_free(slot, part, pool, item)
  if redis.call('HGET', key_duty(part), 'drain') then
    redis.call('HSET', key_slot(slot), 'place', 'held')
    return 'held'
  end
  redis.call('HSET', key_slot(slot), 'place', 'free')
  if redis.call('RPUSH', key_available(pool), item) == 1 then open_pool(pool) end
  return 'free'
end
