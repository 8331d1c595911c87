-- Kept holds: those of slots that have no record, because it was dropped or lost. Their nodes may publish them again.
local kept_holds = {}

local KEPT = {'unwell', 'hold_told', 'barred', 'barred_number'}

-- Keep a call of an operator that a hub brings back after a loss, for a slot that has not been published again.
function kept_holds.keep(slot, number, reason)
  holds.in_use()
  if not numbers.above(number, redis.call('HGET', keys.kept_holds(slot), 'barred_number') or '') then return end
  redis.call('HSET', keys.kept_holds(slot), 'barred_number', number, 'barred', reason)
  redis.call('EXPIRE', keys.kept_holds(slot), keys.seconds.kept_holds)
end

-- Keep the holds of a slot whose record is dropped: its node may publish it again.
function kept_holds.drop(slot, part)
  local said = redis.call('HMGET', keys.slot(slot), unpack(KEPT))
  if not (said[1] or said[4]) then return end  -- it is well, and no operator ever held it
  redis.call('ZREM', keys.unwell, slot)
  redis.call('HDEL', keys.node_holds(part), 'node:' .. slot, 'operator:' .. slot)
  for i, value in ipairs(said) do
    if value then redis.call('HSET', keys.kept_holds(slot), KEPT[i], value) end
  end
  redis.call('HSET', keys.kept_holds(slot), 'part', part)
  redis.call('EXPIRE', keys.kept_holds(slot), keys.seconds.kept_holds)
end

-- Forget why its node held a slot that was withdrawn. The hold of an operator stays: the node may only have made the slot anew.
function kept_holds.forget(slot) redis.call('HDEL', keys.kept_holds(slot), 'part', 'unwell', 'hold_told') end

-- Give a slot that gets a record the holds that were kept of it; that of a node only where it is the same node.
function kept_holds.enter(slot, part)
  local kept = redis.call('HMGET', keys.kept_holds(slot), unpack(KEPT))
  if not (kept[1] or kept[4]) then return end
  local same = redis.call('HGET', keys.kept_holds(slot), 'part') == part
  for i, value in ipairs(kept) do
    if value and value ~= '' and (same or i > 2) then redis.call('HSET', keys.slot(slot), KEPT[i], value) end
  end
  redis.call('DEL', keys.kept_holds(slot))
  holds.index(slot, part)
end

return kept_holds
