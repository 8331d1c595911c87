-- Leave a slot in one list at most, the one its record can be believed about, and let the record say which. A lent slot
-- that is listed nowhere is listed again, but lent on only if its node names it once more; a free one is forgotten until
-- then, as the node or another program may have taken it away. Safe to repeat. Returns {'ok'}
command.change('doctor/repair_place', {
  'slot',
  'seen',  -- JSON of [[place, label, item], ...]
}, function(a)
  local record = slots.read(a.slot)
  local found = sightings.count(cjson.decode(a.seen), record)

  -- The one sighting to believe: of a lent slot with a session only the in-use list, else the free list first.
  local function believed()
    local granted = record.place == 'lent' and redis.call('EXISTS', keys.session(a.slot)) == 1
    local best, rank = nil, 99
    for _, each in ipairs(found) do
      local at_home = each.label == record.pool and each.item == record.item
      local order = (at_home and 0 or 10) + (each.place == (granted and 'lent' or 'free') and 0 or 1)
      if order < rank and not (granted and (not at_home or each.place ~= 'lent')) then best, rank = each, order end
    end
    return best, granted
  end

  local keep, granted = believed()
  if record.place == 'held' then keep = nil end
  for _, each in ipairs(found) do
    local extra = each == keep and each.count - 1 or each.count
    if extra > 0 then redis.call('LREM', sightings.list_of(each.place, each.label), -extra, each.item) end
    if each.place == 'free' and redis.call('EXISTS', keys.available(each.label)) == 0 then pools.close(each.label) end
  end
  if not record.item or record.place == 'held' then return {'ok'} end

  local function ask_its_node()
    if redis.call('SISMEMBER', keys.nodes, record.node) == 1 then
      redis.call('HSET', keys.orders(record.part), 'republish', '1')
    end
  end
  if granted and not keep then
    redis.call('RPUSH', keys.inuse(record.pool), record.item)
    redis.call('HSET', keys.slot(a.slot), 'unreported', '1')
    ask_its_node()
  elseif keep and keep.label == record.pool and keep.item == record.item then
    redis.call('HSET', keys.slot(a.slot), 'place', keep.place)
    if keep.place == 'free' then pools.open(keep.label) end
  else
    if record.place == 'lent' then endings.finish(a.slot, record.label, record.run, record.part) end
    slots.drop(a.slot, record.pool, record.part)   -- a sweep takes it in again where it is listed now
    if not keep then ask_its_node() end
  end
  return {'ok'}
end)
