-- Holds: slots that are unwell. A slot may be held by its node and by an operator, each with a reason, and is lent only when neither holds
-- it. A lent slot stays lent. The calls of operators are numbered by the counter of tokens, those of a node by its process.
local holds = {}

-- Note that the store has holds: only then calls look for them.
function holds.in_use() store.holds = store.holds or redis.call('HSET', keys.store, 'holds', '1') and true end

-- Return why a slot is held, and by whom: 'operator' | 'node'; nil for a slot that is well.
function holds.of(slot)
  if not store.holds then return nil end
  local barred, unwell = unpack(redis.call('HMGET', keys.slot(slot), 'barred', 'unwell'))
  return barred or unwell or nil, barred and 'operator' or 'node'
end

-- Make the indexes of holds agree with the record of a slot of the node with this key part; `before`: the part that the record had
-- before, if another.
function holds.index(slot, part, before)
  local unwell, barred, number = unpack(redis.call('HMGET', keys.slot(slot), 'unwell', 'barred', 'barred_number'))
  redis.call('HDEL', keys.node_holds(before or part), 'node:' .. slot, 'operator:' .. slot)
  if unwell then redis.call('HSET', keys.node_holds(part), 'node:' .. slot, '1') end
  if barred then redis.call('HSET', keys.node_holds(part), 'operator:' .. slot, number .. '|' .. barred) end
  if not (unwell or barred) then return redis.call('ZREM', keys.unwell, slot) end
  redis.call('ZADD', keys.unwell, 'NX', numbers.whole(store.clock_ms), slot)
end

-- Let the 'node' or an 'operator' hold a slot, or end its hold: '' as the reason. Returns whether the slot is to be placed again; the
-- holder of a lease is told.
local function say(slot, part, by, reason)
  local field = by == 'node' and 'unwell' or 'barred'
  local before, place, node, pool = unpack(redis.call('HMGET', keys.slot(slot), field, 'place', 'node', 'pool'))
  if (before or '') == reason then return false end
  if reason ~= '' then holds.in_use() end
  if reason == '' then redis.call('HDEL', keys.slot(slot), field) else redis.call('HSET', keys.slot(slot), field, reason) end
  holds.index(slot, part)
  history.note(reason ~= '' and 'slot.unwell' or 'slot.well', 'slot', slot, 'node', node, 'pool', pool, 'why', by, 'held_by', by,
    'reason', reason)
  if place == 'lent' then notifications.publish(keys.revoked_notice(slot), '') end
  return place ~= 'lent'
end

-- Return whether a call of a process with this number is the one that was `told`, or comes after it.
function holds.is_late(told, incarnation, number)
  local by, last = string.match(told or '', '^(.*)|(%d+)$')
  return number ~= '' and by == incarnation and tonumber(number) <= tonumber(last)
end

-- Hear a process of the node of a slot; a call without a number ('') is never late. A late hold of a `new` slot counts, for the later call
-- did not know the slot. Returns as `say` does, and whether it came late.
function holds.hear(slot, part, incarnation, number, reason, new)
  local told, all = redis.call('HGET', keys.slot(slot), 'hold_told'), redis.call('HGET', keys.orders(part), 'held_told')
  local late = holds.is_late(told, incarnation, number) or holds.is_late(all, incarnation, number)
  if late then return new and reason ~= '' and say(slot, part, 'node', reason), true end
  if number ~= '' or incarnation ~= '' and string.match(told or '', '^(.*)|') ~= incarnation then
    redis.call('HSET', keys.slot(slot), 'hold_told', incarnation .. '|' .. (number ~= '' and number or '0'))
  end
  return say(slot, part, 'node', reason), false
end

-- Take a call of an operator, if its number is above that of the last one. Returns as `say` does, and whether the call counts.
function holds.call(slot, part, number, reason)
  local last = redis.call('HGET', keys.slot(slot), 'barred_number') or ''
  if not numbers.above(number, last) or numbers.above(number, store.token) then return false, false end  -- no store counted so far
  redis.call('HSET', keys.slot(slot), 'barred_number', number)
  local again = say(slot, part, 'operator', reason)
  holds.index(slot, part)
  orders.changed(part)
  return again, true
end

-- Hear a publication of a slot, `said` {incarnation, number, says}: why the node holds it, where it `says` '1' of that, else a hold of an
-- earlier process ends; and number and reason of the last call of an operator that the node was told. Returns as `say` does.
function holds.publish(slot, part, said, unwell, called, barred, new)
  if not store.holds and unwell == '' and called == '' then return false end
  local again = called ~= '' and holds.call(slot, part, called, barred)
  if said.says == '1' then return holds.hear(slot, part, said.incarnation, said.number, unwell, new) or again end
  local by = string.match(redis.call('HGET', keys.slot(slot), 'hold_told') or '', '^(.*)|')
  return said.incarnation ~= '' and by ~= said.incarnation and say(slot, part, 'node', '') or again
end

return holds
