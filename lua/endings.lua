-- Endings: what goes when a lease ends, and what is remembered of it.
local endings = {}

-- A lease has ended. While nodes and hubs may still say that it is lent, because they do not know, that is remembered;
-- also of a lease that was made since the loss, for there may be another one before all nodes have reported.
function endings.note_ended(slot, token)
  if not (store.hearing and token) then return end
  local ended = redis.call('HGET', keys.ended, slot)
  if not ended or numbers.above(token, ended) then redis.call('HSET', keys.ended, slot, token) end
end

-- A lease does not count for this label any more, which may make room under its cap.
function endings.uncount(slot, label)
  redis.call('ZREM', keys.in_flight(label), slot)
  if turns.anybody() and redis.call('ZSCORE', keys.turns, label) then
    turns.reoffer(label)
    call_state.headroom[#call_state.headroom + 1] = label
  end
end

-- End the lease of a slot: session, deadline, footprints, mappings, the in-flight count of the label it was asked for.
-- Where the slot goes is the caller's, who may know the token.
function endings.finish(slot, label, run, part, token)
  if store.hearing then endings.note_ended(slot, token or redis.call('HGET', keys.session(slot), 'leaseToken')) end
  redis.call('DEL', keys.session(slot), keys.borrow_ttl(slot), keys.borrow_idle(slot), keys.browser_run(slot),
    keys.browser_test(slot))
  redis.call('ZREM', keys.deadlines, slot)
  if label then endings.uncount(slot, label) end
  if run and run ~= '' then redis.call('ZREM', keys.run(run), slot) end
  if part then
    redis.call('HDEL', keys.lent(part), slot)
    orders.changed(part)
  end
end

return endings
