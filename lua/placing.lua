-- Placing: where a slot goes that is in no list.
local placing = {}

-- Send on a slot that is in no list: to the waiter whose turn it is, else to the tail of its pool; it is held back while
-- its node drains or is suspect, or its last holder may still believe in a lease that ended early. A waiter gets the
-- slot that is next in the pool, which is another one when only a cap had kept it free. Every path that frees a slot ends
-- here. Returns 'lent' | 'free' | 'held'.
function placing.place(slot, part, pool, item)
  if drains.holds_back(part) or revocations.believed_in(slot) then
    redis.call('HSET', keys.slot(slot), 'place', 'held')
    return 'held'
  end
  if turns.anybody() and store.settle_left_ms <= 0 and not pools.under_maintenance(pool) then
    local waiter = waiters.next(pool)
    if waiter and redis.call('EXISTS', keys.available(pool)) == 1 then
      redis.call('HSET', keys.slot(slot), 'place', 'free')
      redis.call('RPUSH', keys.available(pool), item)
      local found = supply.take(pool)
      if found then handoffs.hand_on(waiter, found) end
      return redis.call('HGET', keys.slot(slot), 'place')
    elseif waiter then
      local said = redis.call('HMGET', keys.slot(slot), 'node', 'idle_ms', 'reported')
      if suspects.is_suspect(said[1], part, said[3]) then
        suspects.hold_aside(slot, part, said[1])
        return 'held'
      end
      handoffs.hand_on(waiter, {slot = slot, item = item, pool = pool, node = said[1], part = part, own_idle_ms = said[2]})
      return 'lent'
    end
  end
  redis.call('HSET', keys.slot(slot), 'place', 'free')
  if redis.call('RPUSH', keys.available(pool), item) == 1 then pools.open(pool) end
  return 'free'
end

-- Send on a slot that was held back for its last holder alone.
function placing.offer_again(slot)
  local record = lenient.fields(keys.slot(slot), 'item', 'pool', 'part', 'place')
  if record[4] ~= 'held' or redis.call('SISMEMBER', keys.aside(record[3]), slot) == 1 then return end
  placing.place(slot, record[3], record[2], record[1])
end

-- A node that was suspect is heard again: its slots that were held back are on offer, 256 in one call, of which those
-- that go to a waiter count eight times; those of a draining node stay held back, and so do those that it has not
-- reported yet, without keeping the others back.
function placing.resume(node, part)
  local holds, unreported = drains.holds_back(part), {}
  while call_state.left_to_resume > 0 do
    local slot = redis.call('SPOP', keys.aside(part))
    if not slot then break end
    local record, place = redis.call('HMGET', keys.slot(slot), 'item', 'pool', 'place', 'reported'), nil
    if record[3] == 'held' and store.reporting and record[4] ~= store.generation then
      unreported[#unreported + 1] = slot
    elseif record[3] == 'held' and not holds then
      place = placing.place(slot, part, record[2], record[1])
    end
    call_state.left_to_resume = call_state.left_to_resume - (place == 'lent' and 8 or 1)
  end
  if unreported[1] then redis.call('SADD', keys.aside(part), unpack(unreported)) end
  if redis.call('EXISTS', keys.aside(part)) == 1 then return end
  redis.call('SREM', keys.suspects, node)
  if redis.call('HDEL', keys.orders(part), 'suspect') == 1 then history.note('node.back', 'node', node) end
end

return placing
