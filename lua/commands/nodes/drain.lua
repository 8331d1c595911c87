-- Stop or resume lending a node's slots: free ones are held back, or go on to the next waiter. Lent ones stay with
-- their borrowers until the deadline, if there is one, which the sweeper carries out (sweeping/end_drained); with a
-- reason the node is cordoned, which has no deadline and is not told to it as a drain. The last
-- call decides, about the deadline as well. In batches, of which the first switches; safe to repeat.
-- Each call has a number that only rises, also after the store was lost: one that is brought back, by the hub that made it
-- or by the node that was told of it, changes nothing when an equal or later one is known, and waits for a node that is
-- not back yet.
-- Returns {'ok', cursor of the next batch or '0', slots held of this batch, slots lent of it, ms to the deadline or -1,
--   number of the call} | {'unknown'} | {'kept'}
command.change('nodes/drain', {
  'id',
  'part',
  'on',           -- '1' drain, '0' undrain
  'deadline_ms',  -- from now, '' for none
  'cursor',       -- '0' to begin with
  'limit',        -- slots per batch, about
  'number',       -- of a call that is brought back; '' for one that is made now
  'reason',       -- why it is cordoned; '' for a drain and for its end
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
    orders.changed(a.part)  -- the node is told the number with its next beat
  end
  local holds = drains.holds_back(a.part)
  if a.cursor == '0' and a.on == '1' then
    redis.call('SADD', keys.draining, a.id)
    if a.deadline_ms ~= '' then
      redis.call('ZADD', keys.drain_deadlines, store.clock_ms + tonumber(a.deadline_ms), a.id)
    else
      redis.call('ZREM', keys.drain_deadlines, a.id)
    end
    if not holds then  -- the number tells this drain from a later one
      redis.call('HSET', keys.orders(a.part), 'drain', orders.changed(a.part))
    end
    local before = drains.cordoned(a.part)
    if a.reason ~= '' then
      redis.call('HSET', keys.orders(a.part), 'cordon', a.reason)
      if before ~= a.reason then history.note('node.cordoned', 'node', a.id, 'reason', a.reason) end
    else
      redis.call('HDEL', keys.orders(a.part), 'cordon')
      if before or not holds then history.note('node.draining', 'node', a.id, 'deadline_ms', a.deadline_ms) end
    end
  elseif a.cursor == '0' then
    redis.call('SREM', keys.draining, a.id)
    redis.call('ZREM', keys.drain_deadlines, a.id)
    if holds then
      redis.call('HDEL', keys.orders(a.part), 'drain', 'cordon')
      history.note('node.undrained', 'node', a.id)
      orders.changed(a.part)
    end
  elseif holds ~= (a.on == '1') then
    return {'ok', '0', 0, 0, -1, a.number}  -- it was switched back since the first batch
  end
  local held, lent = 0, 0
  local page = redis.call('SSCAN', keys.node_slots(a.part), a.cursor, 'COUNT', a.limit)
  for _, slot in ipairs(page[2]) do
    local record = redis.call('HMGET', keys.slot(slot), 'item', 'pool', 'place')
    local place = record[3]
    if a.on == '1' and place == 'free' then
      slots.unlist(record[2], record[1], 'free')
      redis.call('HSET', keys.slot(slot), 'place', 'held')
      place = 'held'
    elseif a.on == '0' and place == 'held' then
      place = placing.place(slot, a.part, record[2], record[1])
    end
    held = held + (place == 'held' and 1 or 0)
    lent = lent + (place == 'lent' and 1 or 0)
  end
  serving.opened()
  return {'ok', page[1], held, lent, drains.left_ms(a.id), a.number}
end)
