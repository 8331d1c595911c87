-- Placing: where a slot goes that is in no list. Each command that frees a slot ends here.
local placing = {}

-- Give a slot that is in no list to the bundle for which slots are set aside, to the waiter whose turn it is, or to a bundle that it
-- completes; else put it at the tail of its pool. It is held back where `held_slots.has_reason` says so, and while its node is suspect. A
-- waiter gets the slot that it prefers, or the one at the head of the pool, which are others where only a cap had kept slots free; or
-- this one, where it has a class. Returns 'lent' | 'free' | 'held'.
function placing.place(slot, part, pool, item)
  if store.bundles then reserved_slots.drop(slot) end
  if held_slots.has_reason(slot, part) then redis.call('HSET', keys.slot(slot), 'place', 'held') return 'held' end
  local class, warm = unpack(store.matching and redis.call('HMGET', keys.slot(slot), 'class', 'warm') or {})
  local set_aside = store.bundles and reserver.take(slot, pool, class, part)
  if set_aside then return set_aside end
  local may_lend = turns.anybody() and store.settle_left_ms <= 0 and not pools.under_maintenance(pool)
  if may_lend and not served_caps.has_made_room(pool) and not served_caps.reached(pool) then
    local waiter = waiters.next(pool, class)
    if waiter and not class and redis.call('EXISTS', keys.available(pool)) == 1 then
      redis.call('HSET', keys.slot(slot), 'place', 'free')
      redis.call('RPUSH', keys.available(pool), item)
      if warm then classes.enter(slot, pool, class, warm, free_slots.now_us()) end
      local found = choosing.taker('', waiter.prefer)(pool)
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
  if class or warm then classes.enter(slot, pool, class, warm, free_slots.now_us()) end
  if not store.bundles or served_caps.has_made_room(pool) then return 'free' end
  bundle_handoffs.freed(pool, class, part)
  return redis.call('HGET', keys.slot(slot), 'place')
end

-- Place a slot again that was held back only because its last holder might believe in its lease.
function placing.offer_again(slot)
  local record = lenient.fields(keys.slot(slot), 'item', 'pool', 'part', 'place')
  if record[4] ~= 'held' or redis.call('SISMEMBER', keys.aside(record[3]), slot) == 1 then return end
  placing.place(slot, record[3], record[2], record[1])
end

-- Place a slot again whose holds have changed: a free one is held back, or a held one offered, unless its node is suspect.
function placing.place_anew(slot)
  local record = slots.read(slot)
  if redis.call('SISMEMBER', keys.aside(record.part), slot) == 0 and slots.unlist(record.pool, record.item, record.place) then
    placing.place(slot, record.part, record.pool, record.item)
  end
end

-- Offer the slots of a node again that were held back while it was suspect, up to 256 in one call; a slot that goes to a waiter counts
-- as eight. Slots stay held while the node drains, and those that it has not reported since the store was lost stay as well, without
-- keeping back the others.
function placing.resume(node, part)
  local drains_away, unreported = drains.holds_back(part), {}
  while call_state.left_to_resume > 0 do
    local slot = redis.call('SPOP', keys.aside(part))
    if not slot then break end
    local record, place = redis.call('HMGET', keys.slot(slot), 'item', 'pool', 'place', 'reported'), nil
    if record[3] == 'held' and store.reporting and record[4] ~= store.generation then
      unreported[#unreported + 1] = slot
    elseif record[3] == 'held' and not drains_away then
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
