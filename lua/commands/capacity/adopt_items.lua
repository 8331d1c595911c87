-- Compare items of one list with the records of their slots, and repair what other programs did: slots that they put or moved into the
-- list get a record, a second copy of a slot is taken out, a free slot of a draining node, or one that is unwell, is held back. An item
-- without a slot id gets a record under its node, or is left alone when it names no node. Safe to repeat.
-- Returns {'ok', slots that got a record, items taken out, {what was taken out as a copy: reason, item, ...}}
command.change('capacity/adopt_items', {
  'pool',
  'place',  -- 'free' | 'lent': the list of the pool that is meant
  '...items',
}, function(a, argv)
  local adopted, taken, dropped = 0, 0, {}
  local list = a.place == 'free' and keys.available(a.pool) or keys.inuse(a.pool)

  local function adopt(slot, item, node, idle_ms, policy, attributes, warm)
    local part, fresh = ids.key_part(node), policy == 'fresh'
    slots.create(slot, item, a.pool, node, part, idle_ms, fresh and 'fresh' or 'recycle')
    history.slot('slot.adopted', {slot = slot, node = node, pool = a.pool}, '')
    redis.call('HSET', keys.slot(slot), 'place', a.place, 'adopted_ms', store.clock_ms)
    if attributes ~= '' or warm ~= '' then slot_classes.set(slot, a.pool, attributes, warm, math.huge) end
    local session = a.place == 'lent' and redis.call('HMGET', keys.session(slot), 'labelKey', 'runId', 'leaseToken', 'holder') or {}
    if session[1] then
      redis.call('HSET', keys.slot(slot), 'label', session[1], 'run', session[2] or '', 'holder', session[4] or '')
      holders.note(slot, session[4])
      redis.call('HSET', keys.lent(part), slot, session[3] or '')
      served_caps.count(slot, a.pool)
      team_shares.count(slot, a.pool, redis.call('HGET', keys.slot(slot), 'holder') or '')
    end
    adopted = adopted + 1
    if a.place == 'free' and fresh then
      foreign_items.hold_used(slot, part, a.pool, item)
    elseif a.place == 'free' and (drains.holds_back(part) or holds.of(slot)) then
      redis.call('LREM', list, 1, item)
      redis.call('HSET', keys.slot(slot), 'place', 'held')
      taken = taken + 1
    end
  end

  for i = 3, #argv do
    local item = argv[i]
    local slot = items.glance(item)
    local node, idle_ms
    local record = slot and redis.call('HMGET', keys.slot(slot), 'item', 'pool', 'place')
    local same = record and record[1] == item and record[2] == a.pool and record[3] == a.place
    if not same and redis.call('LPOS', list, item) then
      slot, node, idle_ms = items.read(item)
      if not slot and node ~= '' then slot = items.nameless(item) end
      record = slot and redis.call('HMGET', keys.slot(slot), 'item', 'pool', 'place', 'part', 'policy')
      same = record and record[1] == item and record[2] == a.pool and record[3] == a.place
      if slot and not record[1] then
        adopt(slot, item, node, idle_ms, '', '', '')
      elseif slot and not same and slots.still_listed(record[2], record[1], record[3]) then
        redis.call('LREM', list, 1, item)
        taken = taken + 1
        dropped[#dropped + 1] = 'also in ' .. record[2] .. ' ' .. record[3]
        dropped[#dropped + 1] = item
      elseif slot and not same and (record[3] ~= 'lent' or redis.call('EXISTS', keys.session(slot)) == 0) then
        local attributes, warm = slot_classes.of(slot)
        served_caps.uncount(slot)
        team_shares.uncount(slot)
        slots.drop(slot, record[2], record[4])
        adopt(slot, item, node, idle_ms, record[5], attributes, warm)
      end
    end
  end
  if a.place == 'free' and redis.call('EXISTS', list) == 1 then
    for i = 3, store.matching and #argv or 0 do
      local slot = items.glance(argv[i]) or ''
      local record = redis.call('HMGET', keys.slot(slot), 'item', 'pool', 'place')
      local is_here = record[1] == argv[i] and record[2] == a.pool and record[3] == 'free'
      if is_here then classes.put_back(slot, a.pool, free_slots.now_us()) end
    end
    pools.open(a.pool)
    serving.pool(a.pool)
  end
  return {'ok', adopted, taken, dropped}
end)
