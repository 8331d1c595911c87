-- Supply: the slot of a pool that is lent next.
local supply = {}

-- The record of a popped item, made now if another program put it there; nil when it must not be lent. `slot` is what a
-- glance says of the item.
function supply.settle(pool, item, slot)
  local known = slot and redis.call('HMGET', keys.slot(slot), 'item', 'pool', 'place', 'node', 'part', 'idle_ms',
    'reported')
  if not known or known[1] ~= item or known[2] ~= pool or known[3] ~= 'free' then
    return strays.settle(pool, item)
  end
  return {slot = slot, item = item, pool = pool, node = known[4], part = known[5], own_idle_ms = known[6],
    reported = known[7]}
end

-- A slot that is about to be replaced is lent last: look for another among the 32 oldest and the 32 newest. Returns the
-- item to lend and its slot id.
local function spare_marked(pool, item)
  local slot = items.glance(item)
  if not slot or redis.call('EXISTS', keys.recycle(slot)) == 0 then return item, slot end
  for _, range in ipairs({{'0', '31'}, {'-32', '-1'}}) do
    local others = redis.call('LRANGE', keys.available(pool), range[1], range[2])
    local markers = {}
    for i, other in ipairs(others) do markers[i] = keys.recycle(items.glance(other) or '') end
    local marked = #others > 0 and redis.call('MGET', unpack(markers)) or {}
    for i, other in ipairs(others) do
      if not marked[i] then
        redis.call('LREM', keys.available(pool), 1, other)
        redis.call('LPUSH', keys.available(pool), item)
        return other, items.glance(other)
      end
    end
    if #others < 32 then break end
  end
  return item, slot
end

-- Take the slot that is next in a pool out of its list; nil when the pool has none or is under maintenance. Slots of
-- suspect nodes are held aside; when that were too many for one call the next one finds the rest.
function supply.take(pool)
  if pools.under_maintenance(pool) then return nil end
  while work.looks > 0 do
    local item = redis.call('LPOP', keys.available(pool))
    if not item then pools.close(pool) return nil end
    local found = supply.settle(pool, spare_marked(pool, item))
    if found and not suspects.is_suspect(found.node, found.part, found.reported) then return found end
    if found then suspects.hold_aside(found.slot, found.part, found.node) end
    work.looks = work.looks - 1
  end
end

return supply
