-- Repairs of slots: make the record, the session and the indexes of a slot agree.
local doctor_slot_repair = {}
local function end_every_trace(record, session)
  local slot = record.slot
  local traces = redis.call('EXISTS', keys.session(slot), keys.borrow_ttl(slot), keys.borrow_idle(slot)) > 0
    or redis.call('ZSCORE', keys.deadlines, slot) or redis.call('HEXISTS', keys.lent(record.part), slot) == 1
    or record.label or redis.call('HEXISTS', keys.slot(slot), 'granted_ms') == 1
  if not traces then return end
  if session[1] then endings.end_lease(record) end
  endings.finish(slot, session[1] or record.label, session[1] and session[2] or record.run, record.part, nil, record.limited)
  holders.forget(slot)
end

local function complete_grant(record, session)  -- the indexes of a lease whose slot record and session exist
  local slot, label, run, token = record.slot, session[1], session[2] or '', session[3] or ''
  redis.call('HSET', keys.slot(slot), 'label', label, 'run', run, 'holder', session[4] or '')
  redis.call('HSET', keys.session(slot), 'poolLabel', record.pool)
  bundles.note(slot, token, session[4])
  redis.call('ZADD', keys.in_flight(label), 'NX', store.now_ms, slot)
  served_caps.count(slot, record.pool)
  team_shares.count(slot, record.pool, session[4] or '')
  if run ~= '' then redis.call('ZADD', keys.run(run), 'NX', store.now_ms, slot) end
  if redis.call('HGET', keys.lent(record.part), slot) ~= token then
    redis.call('HSET', keys.lent(record.part), slot, token)
    redis.call('HINCRBY', keys.orders(record.part), 'version', 1)
  end
  if redis.call('ZSCORE', keys.deadlines, slot) then return end
  -- Without a deadline, the time that other programs see of the lease (its footprint) becomes the deadline.
  local visible_ms = tonumber(redis.call('HGET', keys.slot(slot), 'visible_ms') or '0')
  local left_ms = math.max(redis.call('PTTL', keys.borrow_ttl(slot)), visible_ms - store.now_ms, 1)
  redis.call('ZADD', keys.deadlines, store.clock_ms + left_ms, slot)
end

-- Offer a held slot again that nothing holds back, and hold back a free slot that `held_slots.has_reason` names.
local function place_again(record)
  local slot, back = record.slot, held_slots.has_reason(record.slot, record.part)
  if record.place == 'held' and not back and not doctor_slots.is_set_aside(record.part, slot) then
    placing.place(slot, record.part, record.pool, record.item)
  elseif record.place == 'free' and back and slots.unlist(record.pool, record.item, 'free') then
    redis.call('HSET', keys.slot(slot), 'place', 'held')
  end
end

-- Repair a slot; the lists are left to doctor_places. A lease without a session ends: its holder could not prove that it has it.
function doctor_slot_repair.repair(slot)
  local record = slots.read(slot)
  local whole = record.item and record.pool and record.part
  if whole then slots.rehome(record) end
  local session = redis.call('HMGET', keys.session(slot), 'labelKey', 'runId', 'leaseToken', 'holder')
  local deadline = redis.call('ZSCORE', keys.deadlines, slot)
  if not session[1] and redis.call('EXISTS', keys.session(slot)) == 0 and record.place ~= 'lent' then
    redis.call('DEL', keys.borrow_ttl(slot), keys.borrow_idle(slot))
  end
  if whole then
    if redis.call('SADD', keys.node_slots(record.part), slot) == 1 then slot_digests.changed(record.part) end
    if redis.call('SADD', keys.pool_slots(record.pool), slot) == 1 then redis.call('ZADD', keys.pools, 0, record.pool) end
    if record.place ~= 'lent' then
      end_every_trace(record, session)
      place_again(record)
    elseif redis.call('HEXISTS', keys.slot(slot), 'granted_ms') == 1 or session[1] and deadline then
      if session[1] then complete_grant(record, session) else releases.release(slot, record, '120', 'grant.ended', 'doctor') end
    end
  elseif redis.call('EXISTS', keys.slot(slot)) == 1 then
    slots.drop(slot, record.pool or '', record.part or '')   -- a sweep makes the record anew from the item
  elseif session[1] and deadline then
    redis.call('ZADD', keys.in_flight(session[1]), 'NX', store.now_ms, slot)
  end
end

-- Take a slot off offer whose node is not registered: no sweep would notice the death of that node.
function doctor_slot_repair.withdraw_unmanaged(slot, patience_ms)
  local record = slots.read(slot)
  record.adopted_ms = redis.call('HGET', keys.slot(slot), 'adopted_ms')
  if not record.item or record.place == 'lent' or not nodes.is_unknown(record, tonumber(patience_ms)) then return end
  slots.unlist(record.pool, record.item, record.place)
  slots.drop(slot, record.pool, record.part)
  history.slot('slot.withdrawn', record, 'unknown')
end

return doctor_slot_repair
