-- Checks and repairs of places: a slot must stand once in the list that its record names, and in no other one.
-- `seen` is JSON of [slot, [[place, label, item], ...]]: the lists in which the doctor met the slot; place is 'free' or 'lent'.
local doctor_places = {}

local function list_of(place, label) return place == 'free' and keys.available(label) or keys.inuse(label) end

-- Count how often each list in which the slot was seen, or that its record names, holds it now. Returns its record, {place, label,
-- item, count} for each list that holds it, the total, and how many of them are in the list of the record.
local function count(seen_text)
  local slot, seen = unpack(cjson.decode(seen_text))
  local record = slots.read(slot)
  local found, total, home, done = {}, 0, 0, {}
  local function look(place, label, item)
    local name = place .. '\n' .. label .. '\n' .. item
    local times_listed = done[name] and 0 or #redis.call('LPOS', list_of(place, label), item, 'COUNT', 0)
    done[name] = true
    if times_listed == 0 then return end
    found[#found + 1] = {place = place, label = label, item = item, count = times_listed}
    total = total + times_listed
    if place == record.place and label == record.pool and item == record.item then home = home + times_listed end
  end
  if record.item and record.pool then
    look('free', record.pool, record.item)
    look('lent', record.pool, record.item)
  end
  for _, each in ipairs(seen) do look(each[1], each[2], each[3]) end
  return record, found, total, home
end

function doctor_places.check(say, _, seen_text)
  local record, _, total, home = count(seen_text)
  say('listed twice', total > 1)
  if record.place == 'held' then return say('listed elsewhere', total > 0) end
  say('listed elsewhere', record.item and home == 0 and total > 0)
  say('listed nowhere', record.item and total == 0)
end

-- Return the list to keep: for a slot with a session its in-use list or nil, else the lists of its record, free before lent, else any.
local function believed(found, record, granted)
  local best, rank = nil, 99
  for _, each in ipairs(found) do
    local at_home = each.label == record.pool and each.item == record.item
    local order = (at_home and 0 or 10) + (each.place == (granted and 'lent' or 'free') and 0 or 1)
    if order < rank and not (granted and (not at_home or each.place ~= 'lent')) then best, rank = each, order end
  end
  return best
end

local function ask_its_node(record)
  if redis.call('SISMEMBER', keys.nodes, record.node) == 1 then redis.call('HSET', keys.orders(record.part), 'republish', '1') end
end

-- Leave a slot in one list at most and make its record name that list. A lent slot that is in no list is put into its in-use list, and
-- is lent again only if its node reports it. A free slot in no list is forgotten until its node publishes it, and so is a used one.
function doctor_places.repair(seen_text)
  local record, found = count(seen_text)
  local granted = record.place == 'lent' and redis.call('EXISTS', keys.session(record.slot)) == 1
  local known = granted or record.place == 'free' or record.policy ~= 'fresh'
  local keep = record.place ~= 'held' and known and believed(found, record, granted) or nil
  for _, each in ipairs(found) do
    local extra = each == keep and each.count - 1 or each.count
    if extra > 0 then redis.call('LREM', list_of(each.place, each.label), -extra, each.item) end
    if each.place == 'free' and redis.call('EXISTS', keys.available(each.label)) == 0 then pools.close(each.label) end
  end
  if not record.item or record.place == 'held' then return end
  if granted and not keep then
    redis.call('RPUSH', keys.inuse(record.pool), record.item)
    redis.call('HSET', keys.slot(record.slot), 'unreported', '1')
    ask_its_node(record)
  elseif keep and keep.label == record.pool and keep.item == record.item then
    redis.call('HSET', keys.slot(record.slot), 'place', keep.place)
    if keep.place == 'free' then pools.open(keep.label) end
  else
    if record.place == 'lent' then endings.end_lease(record) end
    slots.drop(record.slot, record.pool, record.part)   -- a sweep takes the slot in again where it is listed now
    if not keep then ask_its_node(record) end
  end
end

return doctor_places
