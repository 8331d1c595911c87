-- Compare items of one list with the records, and mend: slots that another program put or moved there get a record, a
-- second copy of a slot is taken out, a free slot of a draining node is held back. An item without a slot id is kept
-- with its node, or left alone when it names none. Safe to repeat.
-- Returns {'ok', adopted, items taken out, {what was dropped: reason, item, ...}}
local pool  = ARGV[1]
local place = ARGV[2]                -- 'free' | 'lent': which list
-- @rest items
-- @include store
-- @include item
-- @include new_slot
-- @include drop_slot
-- @include still_listed
-- @include serve
local adopted, taken, dropped = 0, 0, {}
local list = place == 'free' and key_available(pool) or key_inuse(pool)

local function adopt(slot, item, node, idle_ms)
  local part = key_part(node)
  new_slot(slot, item, pool, node, part, idle_ms, 'recycle')
  note_slot('slot.adopted', {slot = slot, node = node, pool = pool}, '')
  redis.call('HSET', key_slot(slot), 'place', place, 'adopted_ms', clock_ms)
  local session = place == 'lent' and redis.call('HMGET', key_session(slot), 'labelKey', 'runId', 'leaseToken') or {}
  if session[1] then
    redis.call('HSET', key_slot(slot), 'label', session[1], 'run', session[2] or '')
    redis.call('HSET', key_lent(part), slot, session[3] or '')
  end
  adopted = adopted + 1
  if place == 'free' and redis.call('HEXISTS', key_duty(part), 'drain') == 1 then
    redis.call('LREM', list, 1, item)
    redis.call('HSET', key_slot(slot), 'place', 'held')
    taken = taken + 1
  end
end

for i = 3, #ARGV do
  local item = ARGV[i]
  local slot, node, idle_ms = glance(item), nil, nil
  local record = slot and redis.call('HMGET', key_slot(slot), 'item', 'pool', 'place')
  local same = record and record[1] == item and record[2] == pool and record[3] == place
  if not same and redis.call('LPOS', list, item) then
    slot, node, idle_ms = read_item(item)
    if not slot and node ~= '' then slot = nameless(item) end
    record = slot and redis.call('HMGET', key_slot(slot), 'item', 'pool', 'place', 'part')
    same = record and record[1] == item and record[2] == pool and record[3] == place
    if slot and not record[1] then
      adopt(slot, item, node, idle_ms)
    elseif slot and not same and still_listed(record[2], record[1], record[3]) then
      redis.call('LREM', list, 1, item)
      taken = taken + 1
      dropped[#dropped + 1] = 'also in ' .. record[2] .. ' ' .. record[3]
      dropped[#dropped + 1] = item
    elseif slot and not same and (record[3] ~= 'lent' or redis.call('EXISTS', key_session(slot)) == 0) then
      drop_slot(slot, record[2], record[4])
      adopt(slot, item, node, idle_ms)
    end
  end
end
if place == 'free' and redis.call('EXISTS', list) == 1 then
  open_pool(pool)
  serve_pool(pool)
end
return {'ok', adopted, taken, dropped}
