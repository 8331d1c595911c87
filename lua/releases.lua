-- Releases: grants that end, with the way of their slots.
local releases = {}

-- End a grant and send its slot on; `what` and `why` go into the history. Returns whether the item was still in the
-- in-use list: a node may have removed it itself. A slot that its node has not reported since the store was lost is not
-- lent on.
function releases.release(slot, record, recycle_s, what, why)
  local listed = slots.unlist(record.pool, record.item, 'lent')
  endings.finish(slot, record.label, record.run, record.part)
  redis.call('HDEL', keys.slot(slot), 'label', 'run', 'granted_ms', 'visible_ms', 'watch_idle', 'before', 'unseen')
  history.slot(what, record, why)
  if recycle_s > 0 and record.policy ~= 'reuse' then slots.mark_recycle(slot, record.part, recycle_s) end
  if listed and not record.unreported then
    if placing.place(slot, record.part, record.pool, record.item) == 'lent' then
      redis.call('HSET', keys.slot(slot), 'before', record.run or '')  -- a late repeat of his return means his own grant
    end
  else
    slots.drop(slot, record.pool, record.part)
    history.slot('slot.withdrawn', record, listed and 'unreported' or 'removed')
  end
  return listed
end

-- Take back the grant that a request was answered with and nobody received: its slot goes to whoever is next. A ticket
-- with a key keeps the place it had. Returns the slot, nil when that grant is over.
function releases.take_back(request, slot, token, why)
  if redis.call('HGET', keys.session(slot), 'leaseToken') ~= token then return nil end
  tickets.settle_delivery(slot, request)
  redis.call('DEL', keys.request(request))
  local t = tickets.read(request)
  if t.label then
    history.ticket('ticket.away', t, 'undone')
    redis.call('PERSIST', keys.ticket(request))
    redis.call('HDEL', keys.ticket(request), 'handed')
    redis.call('ZADD', keys.ticket_deadlines, store.clock_ms + tickets.AWAY_MS, request)
  end
  releases.release(slot, slots.read(slot), 0, 'grant.undone', why)
  return slot
end

return releases
