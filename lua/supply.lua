-- Supply: which slot of a pool is lent next.
local supply = {}

-- Return the slot of an item, nil for the item that its record names: slot item pool node part own_idle_ms reported; nil unless the record
-- says that it is free in this pool. Two further fields of the record follow, where they are named.
function supply.record_of(pool, item, slot, ...)
  local known = redis.call('HMGET', keys.slot(slot), 'item', 'pool', 'place', 'node', 'part', 'idle_ms', 'reported',
    'unwell', 'barred', ...)
  local is_free = known[1] and known[1] == (item or known[1]) and known[2] == pool and known[3] == 'free'
  if not is_free or known[8] or known[9] then return nil, known[10], known[11] end
  return {slot = slot, item = known[1], pool = pool, node = known[4], part = known[5], own_idle_ms = known[6],
    reported = known[7], token = false, label = false, run = false, holder = false, ttl_ms = false, idle_ms = false, listed = false,
    class = false}, known[10], known[11]
end

-- Return the slot of an item that was taken out of its list, and make its record if another program put it there; nil when it must not
-- be lent. `slot` is the id that items.glance found in the item.
function supply.settle(pool, item, slot)
  return slot and supply.record_of(pool, item, slot) or foreign_items.settle(pool, item)
end

-- Take the first item without a recycle marker out of a free list, and return it: slots that are about to be replaced are lent last.
-- The 32 oldest and the 32 newest items are looked at; returns nil when all of them are marked.
function supply.take_unmarked(pool)
  for _, range in ipairs({{'0', '31'}, {'-32', '-1'}}) do
    local others = redis.call('LRANGE', keys.available(pool), range[1], range[2])
    local markers = {}
    for i, other in ipairs(others) do markers[i] = keys.recycle(items.glance(other) or '') end
    local marked = #others > 0 and redis.call('MGET', unpack(markers)) or {}
    for i, other in ipairs(others) do
      if not marked[i] then
        redis.call('LREM', keys.available(pool), 1, other)
        return other
      end
    end
    if #others < 32 then return nil end
  end
end

-- Return the item to lend instead of one that was taken out of its list, and its slot id. It is another item only when the first one is
-- marked and one without a marker is found.
local function spare_marked(pool, item)
  local slot = items.glance(item)
  if not slot or redis.call('EXISTS', keys.recycle(slot)) == 0 then return item, slot end
  local other = supply.take_unmarked(pool)
  if not other then return item, slot end
  redis.call('LPUSH', keys.available(pool), item)
  return other, items.glance(other)
end

-- Take the next slot of a pool out of its list and return it; nil when the pool has none, is under maintenance, or is at a cap on what
-- is served. Slots of suspect nodes on the way are held back; when they are too many for one call, nil is returned and the next call
-- goes on.
function supply.take(pool)
  if pools.under_maintenance(pool) or served_caps.reached(pool) or teams.is_full(pool) then return nil end
  while call_state.looks > 0 do
    local item = redis.call('LPOP', keys.available(pool))
    if not item then pools.close(pool) return nil end
    local found = supply.settle(pool, spare_marked(pool, item))
    if found and store.matching then found.class = classes.taken(found.slot, pool) end
    if found and not suspects.is_suspect(found.node, found.part, found.reported) then return found end
    if found then suspects.hold_aside(found.slot, found.part, found.node) end
    call_state.looks = call_state.looks - 1
  end
end

-- Put a slot back that was taken in vain.
function supply.give_up(found)
  redis.call('LPUSH', keys.available(found.pool), found.item)
  pools.open(found.pool)
  if store.matching then classes.put_back(found.slot, found.pool, 0) end
end

return supply
