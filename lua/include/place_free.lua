-- @include pool
-- @include maintenance
-- @include suspect
-- @include next_waiter
-- @include hand_on
-- @include take
-- @include revoke
-- Send on a slot that is in no list: to the waiter whose turn it is, else to the tail of its pool; it is held back while
-- its node drains or is suspect, or its last holder may still believe in a grant that ended early. A waiter gets the
-- slot that is next in the pool, which is another one when only a cap had kept it free. Every path that frees a slot ends here. Returns 'lent' | 'free' | 'held'.
local function place_free(slot, part, pool, item)
  if redis.call('HGET', key_duty(part), 'drain') or believed_in(slot) then
    redis.call('HSET', key_slot(slot), 'place', 'held')
    return 'held'
  end
  if somebody_waits() and settle_left_ms <= 0 and not under_maintenance(pool) then
    local waiter = next_waiter(pool)
    if waiter and redis.call('EXISTS', key_available(pool)) == 1 then
      redis.call('HSET', key_slot(slot), 'place', 'free')
      redis.call('RPUSH', key_available(pool), item)
      local found = take(pool)
      if found then hand_on(waiter, found) end
      return redis.call('HGET', key_slot(slot), 'place')
    elseif waiter then
      local said = redis.call('HMGET', key_slot(slot), 'node', 'idle_ms', 'reported')
      if suspect(said[1], part, said[3]) then
        hold_aside(slot, part, said[1])
        return 'held'
      end
      hand_on(waiter, {slot = slot, item = item, pool = pool, node = said[1], part = part, own_idle_ms = said[2]})
      return 'lent'
    end
  end
  redis.call('HSET', key_slot(slot), 'place', 'free')
  if redis.call('RPUSH', key_available(pool), item) == 1 then open_pool(pool) end
  return 'free'
end

-- Send on a slot that was held back for its last holder alone.
local function offer_again(slot)
  local record = redis.call('HMGET', key_slot(slot), 'item', 'pool', 'part', 'place')
  if record[4] ~= 'held' or redis.call('SISMEMBER', key_aside(record[3]), slot) == 1 then return end
  place_free(slot, record[3], record[2], record[1])
end
