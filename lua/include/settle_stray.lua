-- @include item
-- @include drop_slot
-- @include still_listed
-- @include new_slot
-- @include history
-- As `settle_item`, of an item whose record does not say that it is free here: another program put it there.
local function settle_stray(pool, item)
  local slot, node, idle_ms = read_item(item)
  local known = redis.call('HMGET', key_slot(slot or nameless(item)), 'item', 'pool', 'place', 'part')
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
  redis.call('HSET', key_slot(slot), 'adopted_ms', clock_ms)
  note_slot('slot.adopted', {slot = slot, node = node, pool = pool}, '')
  if redis.call('HEXISTS', key_duty(part), 'drain') == 1 then
    redis.call('HSET', key_slot(slot), 'place', 'held')
    return nil
  end
  return {slot = slot, item = item, pool = pool, node = node, part = part, own_idle_ms = idle_ms}
end
