-- @include item
-- @include maintenance
-- @include drop_slot
-- @include still_listed
-- @include new_slot
-- @include pool
-- @include suspect
-- @include history
local dropped = {}  -- what was found in a list and cannot be lent: pool, reason, item, ...
local looks = 200  -- at slots that cannot be lent, over all pools, in one script

-- The record of a popped item, made now if another program put it there; nil when it must not be lent.
local function settle_item(pool, item)
  local slot = glance(item)
  local known = slot and redis.call('HMGET', key_slot(slot), 'item', 'pool', 'place', 'node', 'part', 'idle_ms',
    'reported')
  if known and known[1] == item and known[2] == pool and known[3] == 'free' then
    return {slot = slot, item = item, pool = pool, node = known[4], part = known[5], own_idle_ms = known[6],
      reported = known[7]}
  end
  local node, idle_ms
  slot, node, idle_ms = read_item(item)
  known = redis.call('HMGET', key_slot(slot or nameless(item)), 'item', 'pool', 'place', 'part')
  local reason
  if not slot then
    reason = 'no slot id'
    if known[1] then drop_slot(nameless(item), known[2], known[4]) end
  elseif known[3] == 'lent' and redis.call('EXISTS', key_session(slot)) == 1 then
    reason = 'already lent'
  elseif known[1] and known[3] ~= 'held' and still_listed(known[2], known[1], known[3]) then
    reason = 'also in ' .. known[2]
  elseif known[1] then
    drop_slot(slot, known[2], known[4])  -- its item was moved here
  end
  if reason then
    for _, fact in ipairs({pool, reason, item}) do dropped[#dropped + 1] = fact end
    return nil
  end
  local part = key_part(node)
  new_slot(slot, item, pool, node, part, idle_ms, 'recycle')
  note_slot('slot.adopted', {slot = slot, node = node, pool = pool}, '')
  if redis.call('HEXISTS', key_duty(part), 'drain') == 1 then
    redis.call('HSET', key_slot(slot), 'place', 'held')
    return nil
  end
  return {slot = slot, item = item, pool = pool, node = node, part = part, own_idle_ms = idle_ms}
end

-- A slot that is about to be replaced is lent last: look for another among the 32 oldest and the 32 newest.
local function spare_marked(pool, item)
  local slot = glance(item)
  if not slot or redis.call('EXISTS', key_recycle(slot)) == 0 then return item end
  for _, range in ipairs({{0, 31}, {-32, -1}}) do
    local others = redis.call('LRANGE', key_available(pool), range[1], range[2])
    local markers = {}
    for i, other in ipairs(others) do markers[i] = key_recycle(glance(other) or '') end
    local marked = #others > 0 and redis.call('MGET', unpack(markers)) or {}
    for i, other in ipairs(others) do
      if not marked[i] then
        redis.call('LREM', key_available(pool), 1, other)
        redis.call('LPUSH', key_available(pool), item)
        return other
      end
    end
    if #others < 32 then break end
  end
  return item
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
