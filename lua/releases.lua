-- Releases: leases that end, with the way of their slots.
local releases = {}

-- End a lease and send its slot on; `what` and `why` go into the history, `recycle_s` is text, the record may name the
-- token. Returns whether the item was still in the in-use list: a node may have removed it itself. A slot that its node has
-- not reported since the store was lost is not lent on, and one that another node claimed goes to that.
function releases.release(slot, record, recycle_s, what, why)
  local listed = slots.unlist(record.pool, record.item, 'lent')
  endings.finish(slot, record.label, record.run, record.part, record.token)
  redis.call('HDEL', keys.slot(slot), 'label', 'run', 'granted_ms', 'visible_ms', 'watch_idle', 'seen_ms')
  if record.before or record.unseen then redis.call('HDEL', keys.slot(slot), 'before', 'unseen') end
  history.slot(what, record, why)
  if recycle_s ~= '0' and record.policy ~= 'reuse' then slots.mark_recycle(slot, record.part, recycle_s) end
  if listed and not record.unreported and not record.claimed then
    if placing.place(slot, record.part, record.pool, record.item) == 'lent' then
      redis.call('HSET', keys.slot(slot), 'before', record.run or '')  -- a late repeat of its return means its own lease
    end
  else
    slots.drop(slot, record.pool, record.part)
    history.slot('slot.withdrawn', record, not listed and 'removed' or record.claimed and 'claimed' or 'unreported')
    if record.claimed then orders.republish(record.claimed) end
  end
  return listed
end

-- Whether a return without a token came before its caller could know of the present lease, and means the lease before: the
-- waiter has yet to hear of its lease, or the return names the run before, or its hub got it sooner ('': it is not known when).
-- After a loss the hub clock may have gone on by more than that hub knew.
function releases.is_late(record, run, arrived_ms)
  if record.place ~= 'lent' then return false end
  if record.unseen or (run ~= '' and run == record.before and run ~= record.run) then return true end
  if arrived_ms == '' or store.reporting then return false end
  local granted_ms, seen_ms = unpack(redis.call('HMGET', keys.slot(record.slot), 'granted_ms', 'seen_ms'))
  if not granted_ms or tonumber(seen_ms or granted_ms) <= tonumber(arrived_ms) then return false end
  -- When no hub has ticked for a while the hub clock goes on where it did last, up to a second behind its last reading.
  return tonumber(arrived_ms) >= tonumber(redis.call('HGET', keys.store, 'resumed_ms') or '0')
end

-- Take back a lease that was granted to a request and never received: its slot goes to the next waiter. A ticket
-- with a key keeps the place it had. Returns the slot, nil when that lease is over.
function releases.take_back(request, slot, token, why)
  if redis.call('HGET', keys.session(slot), 'leaseToken') ~= token then return nil end
  tickets.settle_delivery(slot, request)
  redis.call('DEL', keys.request(request))
  handoffs.keep_place(tickets.read(request))
  releases.release(slot, slots.read(slot), '0', 'grant.undone', why)
  return slot
end

return releases
