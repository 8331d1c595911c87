-- Stop or resume lending slots of a node: free slots are held back, or placed again. Leases last until the deadline, if there is one,
-- when the sweeper ends them (sweeping/end_drained). With a reason the node is cordoned: it has no deadline and is not told to drain.
-- Of several calls the last one holds, with its deadline. The first batch switches the node; safe to repeat. Each drain call has a
-- number that only rises, also after the store was lost: a call that the hub or the node brings back after a loss changes nothing when
-- an equal or later one is known, and waits for a node that has not registered again.
-- Returns {'ok', cursor of the next batch, '0' after the last, slots of this batch that are held, slots of it that are lent, ms to the
--   deadline or -1, number of the call} | {'unknown'} (the node is not registered) | {'kept'} (an equal or later call is known)
command.finish('nodes/drain', {
  'id',           -- raw id of the node
  'part',         -- key part of the id of the node
  'on',           -- '1': drain or cordon, '0': end of both
  'deadline_ms',  -- ms from now, '' for none
  'cursor',       -- '0' in the first batch
  'limit',        -- slots of a batch, about
  'number',       -- number of a call that is brought back; '' for a new call
  'reason',       -- reason of a cordon; '' for a drain and for the end of both
}, function(a)
  if redis.call('SISMEMBER', keys.nodes, a.id) == 0 then
    if a.number ~= '' then drains.keep(a.part, a.on, a.number, a.deadline_ms, a.reason) end
    return {'unknown'}
  end
  if a.cursor == '0' then
    local known = redis.call('HGET', keys.orders(a.part), 'drain_number') or ''
    if a.number ~= '' and not numbers.above(a.number, known) then return {'kept'} end
    if a.number == '' then a.number = lease_texts.next_token() end
    redis.call('HSET', keys.orders(a.part), 'drain_number', a.number)
    orders.changed(a.part)  -- the node is told the number with its next heartbeat
  end
  local drains_away = drains.holds_back(a.part)
  if a.cursor == '0' and a.on == '1' then
    redis.call('SADD', keys.draining, a.id)
    if a.deadline_ms ~= '' then
      redis.call('ZADD', keys.drain_deadlines, store.clock_ms + tonumber(a.deadline_ms), a.id)
    else
      redis.call('ZREM', keys.drain_deadlines, a.id)
    end
    if not drains_away then  -- the number tells this drain from a later one
      redis.call('HSET', keys.orders(a.part), 'drain', orders.changed(a.part))
    end
    local before = drains.cordoned(a.part)
    if a.reason ~= '' then
      redis.call('HSET', keys.orders(a.part), 'cordon', a.reason)
      if before ~= a.reason then history.note('node.cordoned', 'node', a.id, 'reason', a.reason) end
    else
      redis.call('HDEL', keys.orders(a.part), 'cordon')
      if before or not drains_away then history.note('node.draining', 'node', a.id, 'deadline_ms', a.deadline_ms) end
    end
  elseif a.cursor == '0' then
    redis.call('SREM', keys.draining, a.id)
    redis.call('ZREM', keys.drain_deadlines, a.id)
    if drains_away then
      redis.call('HDEL', keys.orders(a.part), 'drain', 'cordon')
      history.note('node.undrained', 'node', a.id)
      orders.changed(a.part)
    end
  elseif drains_away ~= (a.on == '1') then
    return {'ok', '0', 0, 0, -1, a.number}  -- another call has switched it back since the first batch
  end
  local page = redis.call('SSCAN', keys.node_slots(a.part), a.cursor, 'COUNT', a.limit)
  for _, slot in ipairs(page[2]) do
    local item, pool, place = unpack(redis.call('HMGET', keys.slot(slot), 'item', 'pool', 'place'))
    if a.on == '1' and place == 'free' then
      slots.unlist(pool, item, 'free')
      redis.call('HSET', keys.slot(slot), 'place', 'held')
    elseif a.on == '0' and place == 'held' then
      redis.call('SREM', keys.aside(a.part), slot)  -- else it would not be placed again later, when it was made fresh
      placing.place(slot, a.part, pool, item)
    end
  end
  serving.opened()
  local held, lent = 0, 0
  for _, slot in ipairs(page[2]) do  -- only now: a slot may take others along, which are lent to a bundle or held back with it
    local place = redis.call('HGET', keys.slot(slot), 'place')
    held = held + (place == 'held' and 1 or 0)
    lent = lent + (place == 'lent' and 1 or 0)
  end
  return {'ok', page[1], held, lent, drains.left_ms(a.id), a.number}
end)
