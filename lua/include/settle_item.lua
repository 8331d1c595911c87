-- @include item
-- @include drop_slot
-- @include still_listed
-- @include new_slot
-- @include history
local dropped = {}  -- what was found in a list and cannot be lent: pool, reason, item, ...

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
