-- Foreign items: items that another program put into the list of a pool.
local foreign_items = {}

-- Hold back a slot that another program has given back, in the free list of a pool, although its node is to make it fresh first.
function foreign_items.hold_used(slot, part, pool, item)
  redis.call('LREM', keys.available(pool), 1, item)
  if store.matching then classes.taken(slot, pool) end
  if redis.call('EXISTS', keys.available(pool)) == 0 then pools.close(pool) end
  redis.call('HSET', keys.slot(slot), 'place', 'held')
  if not freshness.is_owed(slot) then freshness.owe(slot, part) end
end

-- Take in an item of a free list whose record is missing or names another place. Returns the slot, like `supply.record_of`, or nil
-- where it cannot be lent. call_state.dropped says what is wrong with an item that was not taken in.
function foreign_items.settle(pool, item)
  local slot, node, idle_ms = items.read(item)
  local known = redis.call('HMGET', keys.slot(slot or items.nameless(item)), 'item', 'pool', 'place', 'part', 'policy')
  local reason, attributes, warm = nil, '', ''
  if known[1] and store.matching then attributes, warm = slot_classes.of(slot or items.nameless(item)) end
  if not slot then
    reason = 'no slot id'
    if known[1] then slots.drop(items.nameless(item), known[2], known[4]) end
  elseif known[3] == 'lent' and redis.call('EXISTS', keys.session(slot)) == 1 then
    reason = 'already lent'
  elseif freshness.is_owed(slot) then
    reason = 'to be made fresh'
  elseif known[1] and known[3] ~= 'held' and slots.still_listed(known[2], known[1], known[3]) then
    reason = 'also in ' .. known[2]
  elseif known[1] then
    slots.drop(slot, known[2], known[4])  -- another program moved its item here
  end
  if reason then
    for _, fact in ipairs({pool, reason, item}) do call_state.dropped[#call_state.dropped + 1] = fact end
    return nil
  end
  local part, fresh = ids.key_part(node), known[5] == 'fresh'
  slots.create(slot, item, pool, node, part, idle_ms, fresh and 'fresh' or 'recycle')
  redis.call('HSET', keys.slot(slot), 'adopted_ms', store.clock_ms)
  if attributes ~= '' or warm ~= '' then slot_classes.set(slot, pool, attributes, warm, math.huge) end
  history.slot('slot.adopted', {slot = slot, node = node, pool = pool}, '')
  if fresh then
    foreign_items.hold_used(slot, part, pool, item)
    return nil
  end
  if drains.holds_back(part) or holds.of(slot) then
    redis.call('HSET', keys.slot(slot), 'place', 'held')
    return nil
  end
  return {slot = slot, item = item, pool = pool, node = node, part = part, own_idle_ms = idle_ms}
end

-- Make the record of a slot that another program has lent, as a lease of this label and run. Its item is looked for in the in-use lists
-- of these pools, among the first 1,000 of each. Returns the record; nil where no pool has the item.
function foreign_items.adopt_lent(slot, pools_of_it, label, run)
  for _, pool in ipairs(pools_of_it) do
    for _, item in ipairs(redis.call('LRANGE', keys.inuse(pool), 0, 999)) do
      if items.glance(item) == slot then
        local _, node, idle_ms = items.read(item)
        slots.create(slot, item, pool, node, ids.key_part(node), idle_ms, 'recycle')
        redis.call('HSET', keys.slot(slot), 'place', 'lent', 'label', label or pool, 'run', run or '')
        local record = slots.read(slot)
        history.slot('slot.adopted', record, '')
        return record
      end
    end
  end
end

return foreign_items
