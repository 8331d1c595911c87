-- @include glance
-- @include pool
-- @include maintenance
-- @include suspect
-- @include settle_item
local looks = 200  -- at slots that cannot be lent, over all pools, in one script

-- A slot that is about to be replaced is lent last: look for another among the 32 oldest and the 32 newest. Returns the
-- item to lend and its slot id.
local function spare_marked(pool, item)
  local slot = glance(item)
  if not slot or redis.call('EXISTS', key_recycle(slot)) == 0 then return item, slot end
  for _, range in ipairs({{'0', '31'}, {'-32', '-1'}}) do
    local others = redis.call('LRANGE', key_available(pool), range[1], range[2])
    local markers = {}
    for i, other in ipairs(others) do markers[i] = key_recycle(glance(other) or '') end
    local marked = #others > 0 and redis.call('MGET', unpack(markers)) or {}
    for i, other in ipairs(others) do
      if not marked[i] then
        redis.call('LREM', key_available(pool), 1, other)
        redis.call('LPUSH', key_available(pool), item)
        return other, glance(other)
      end
    end
    if #others < 32 then break end
  end
  return item, slot
end

-- Take the slot that is next in a pool out of its list; nil when the pool has none or is under maintenance. Slots of
-- suspect nodes are held aside; when that were too many for one script the next one finds the rest.
local function take(pool)
  if under_maintenance(pool) then return nil end
  while looks > 0 do
    local item = redis.call('LPOP', key_available(pool))
    if not item then close_pool(pool) return nil end
    local found = settle_item(pool, spare_marked(pool, item))
    if found and not suspect(found.node, found.part, found.reported) then return found end
    if found then hold_aside(found.slot, found.part, found.node) end
    looks = looks - 1
  end
end
