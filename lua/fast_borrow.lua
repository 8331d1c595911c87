-- The fast way of a borrow: lend the next slot of the pool with exactly the label, where nothing stands in the way.
local fast_borrow = {}

-- Move the next slot of a pool into its in-use list, if its record says that it is free, its node is not suspect, the pool is not under
-- maintenance and the attempt is new. Returns the slot as `supply.record_of` does; else nil, with nothing changed, and true if the pool
-- has no free slot.
function fast_borrow.take(pool, attempt)
  local available, inuse = keys.available(pool), keys.inuse(pool)
  local item = redis.call('LMOVE', available, inuse, 'LEFT', 'RIGHT')
  if not item then return nil, true end
  local slot = items.glance(item)
  -- One EXISTS asks for three keys; they are asked for one by one only where it finds one.
  local count = slot and redis.call('EXISTS', keys.maintenance(pool), keys.recycle(slot), keys.request(attempt)) or 2
  local other = count == 1 and redis.call('EXISTS', keys.recycle(slot)) == 1 and (supply.take_unmarked(pool) or item)
  if other and other ~= item then
    redis.call('LMOVE', inuse, available, 'RIGHT', 'LEFT')
    redis.call('RPUSH', inuse, other)
    item, slot = other, items.glance(other)
  end
  local found = (count == 0 or other) and slot and supply.record_of(pool, item, slot)
  local good = found and not suspects.is_suspect(found.node, found.part, found.reported)
  if good then
    found.listed = true
    if store.matching then found.class = classes.taken(slot, pool) end
    return found
  end
  redis.call('LMOVE', inuse, available, 'RIGHT', 'LEFT')
end

-- Find a slot for a label, like `matching.find`, for a new attempt. Returns nil also for an attempt that was answered before. A slot of
-- the pool with exactly this label is in its in-use list already: then `listed` is true.
function fast_borrow.find(label, attempt)
  local wild = turns.is_wild(label)
  local exact, empty
  if not wild and not served_caps.reached(label) and not teams.is_full(label) then exact, empty = fast_borrow.take(label, attempt) end
  if exact then return exact end
  if redis.call('EXISTS', keys.request(attempt)) == 1 then return nil end
  if empty then pools.close(label) end
  return not (wild or empty) and supply.take(label) or matching.find_elsewhere(label, wild, supply.take)
end

return fast_borrow
