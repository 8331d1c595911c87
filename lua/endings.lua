-- Endings: what is deleted when a lease ends, and what is remembered of it.
local endings = {}

-- Remember, while nodes and hubs may still report leases, that the lease with this token has ended: a late report of it changes
-- nothing. That holds for leases made since the loss as well, for another loss may follow before all nodes have reported. `by_secret`: a
-- shared secret said so, of a lease whose holder was not known.
function endings.note_ended(slot, token, by_secret)
  if not (store.hearing and token) then return end
  local ended = redis.call('HGET', keys.ended, slot)
  if not ended or numbers.above(token, ended) then redis.call('HSET', keys.ended, slot, token) end
  if by_secret then redis.call('HSET', keys.ended, slot .. '|secret', token) end
end

-- Count a lease no longer for a label, and note the label for serving.opened: there may be room under its cap.
function endings.uncount(slot, label)
  redis.call('ZREM', keys.in_flight(label), slot)
  if turns.anybody() and redis.call('ZSCORE', keys.turns, label) then
    turns.reoffer(label)
    call_state.headroom[#call_state.headroom + 1] = label
  end
end

-- End the lease of a slot: delete its session, deadline, footprints and mappings, and count it no longer for the label it was asked
-- for. The caller decides where the slot goes, may pass the token where it knows it, and passes the field `limited` of its record.
function endings.finish(slot, label, run, part, token, limited)
  if store.hearing then endings.note_ended(slot, token or redis.call('HGET', keys.session(slot), 'leaseToken')) end
  served_caps.uncount(slot)
  if store.teams ~= '' then team_shares.uncount(slot) end
  redis.call('DEL', keys.session(slot), keys.borrow_ttl(slot), keys.borrow_idle(slot), keys.browser_run(slot),
    keys.browser_test(slot))
  redis.call('ZREM', keys.deadlines, slot)
  if label then endings.uncount(slot, label) end
  if run and run ~= '' then redis.call('ZREM', keys.run(run), slot) end
  if part then
    redis.call('HDEL', keys.lent(part), slot)
    orders.changed(part)
  end
  if limited then lease_limits.forget(slot) end
end

-- End the lease that the record of a slot names, and note it for the figures of its day. `by_holder`: its holder ended it, or may have.
function endings.end_lease(record, by_holder)
  usage.note_end(record)
  bundles.leave(record, by_holder)
  endings.finish(record.slot, record.label, record.run, record.part, nil, record.limited)
end

return endings
