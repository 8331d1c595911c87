-- Compare items of one list with the records, and mend: slots that another program put there get a record, an item that
-- cannot be lent is taken out of a free list, a second copy of a slot is taken out wherever it is. Safe to repeat.
-- Returns {'ok', adopted, {what was dropped: reason, item, ...}}
local pool  = ARGV[1]
local place = ARGV[2]                -- 'free' | 'lent': which list
-- @rest items
-- @include item
-- @include pool
-- @include new_slot
local adopted, dropped = 0, {}
local list = place == 'free' and key_available(pool) or key_inuse(pool)
local function drop(reason, item)
  redis.call('LREM', list, 1, item)
  dropped[#dropped + 1] = reason
  dropped[#dropped + 1] = item
end
local function still_listed(record)
  if record[3] == 'held' then return true end
  local home = record[3] == 'free' and key_available(record[2]) or key_inuse(record[2])
  return redis.call('LPOS', home, record[1]) and true or false
end
for i = 3, #ARGV do
  local item = ARGV[i]
  local slot = glance(item)
  local record = slot and redis.call('HMGET', key_slot(slot), 'item', 'pool', 'place')
  local same = record and record[1] == item and record[2] == pool and record[3] == place
  if not same and redis.call('LPOS', list, item) then
    local node, idle_ms
    slot, node, idle_ms = read_item(item)
    record = slot and redis.call('HMGET', key_slot(slot), 'item', 'pool', 'place', 'part')
    if not slot then
      if place == 'free' then drop('no slot id', item) end
    elseif record[1] and (record[1] ~= item or record[2] ~= pool or record[3] ~= place) and still_listed(record) then
      drop('also in ' .. record[2] .. ' ' .. record[3], item)
    elseif record[3] ~= 'lent' or redis.call('EXISTS', key_session(slot)) == 0 then
      if record[1] and record[2] ~= pool then redis.call('SREM', key_pool_slots(record[2]), slot) end
      new_slot(slot, item, pool, node, key_part(node), idle_ms, 'recycle')
      redis.call('HSET', key_slot(slot), 'place', place)
      adopted = adopted + 1
    end
  end
end
if place == 'free' and redis.call('EXISTS', list) == 1 then open_pool(pool) end
return {'ok', adopted, dropped}
