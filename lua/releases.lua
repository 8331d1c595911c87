-- Releases: how a lease ends and where its slot goes.
local releases = {}

-- End a lease and place its slot. `what` and `why` go into the history; `recycle_s`, a text, is how long the node is asked to replace
-- the slot, '0' for not at all; a slot with the policy `fresh` is to be made fresh in any case. The record may have the token. Returns
-- whether the item was in the in-use list: its node may have removed it. A slot that its node has not reported since the store was lost
-- is dropped, and so is one that another node has claimed, which is told to publish it.
function releases.release(slot, record, recycle_s, what, why)
  local listed = slots.unlist(record.pool, record.item, 'lent')
  if what ~= 'grant.undone' then usage.note_end(record) end
  bundles.leave(record, what == 'grant.returned' or what == 'grant.undone')
  endings.finish(slot, record.label, record.run, record.part, record.token, record.limited)
  holders.forget(slot)
  if record.before or record.unseen then redis.call('HDEL', keys.slot(slot), 'before', 'unseen') end
  history.slot(what, record, why)
  if record.policy == 'fresh' then
    freshness.owe(slot, record.part)
  elseif recycle_s ~= '0' and record.policy ~= 'reuse' then
    slots.mark_recycle(slot, record.part, recycle_s)
  end
  if listed and not record.unreported and not record.claimed then
    if placing.place(slot, record.part, record.pool, record.item) == 'lent' then
      redis.call('HSET', keys.slot(slot), 'before', record.run or '')  -- a late repeat of a return means the lease before, not this one
    elseif call_state.roomy[1] then
      call_state.released[slot] = record.run or ''
    end
  else
    slots.drop(slot, record.pool, record.part)
    history.slot('slot.withdrawn', record, not listed and 'removed' or record.claimed and 'claimed' or 'unreported')
    if record.claimed then orders.republish(record.claimed) end
  end
  return listed
end

-- Return whether a return without a token came before its caller could know of the present lease, so that it means the lease before.
-- That is so when the waiter has not heard of its lease yet, when the return names the run of the lease before, or when it reached its
-- hub before the waiter heard (`arrived_ms`, '' where that is not known). After a loss the times do not count: the hub clock may have
-- been moved on.
function releases.is_late(record, run, arrived_ms)
  if record.place ~= 'lent' then return false end
  if record.unseen or (run ~= '' and run == record.before and run ~= record.run) then return true end
  if arrived_ms == '' or store.reporting then return false end
  local granted_ms, seen_ms = unpack(redis.call('HMGET', keys.slot(record.slot), 'granted_ms', 'seen_ms'))
  if not granted_ms or tonumber(seen_ms or granted_ms) <= tonumber(arrived_ms) then return false end
  -- After a silence of all hubs the hub clock goes on where it stood, up to a second behind its last reading.
  return tonumber(arrived_ms) >= tonumber(redis.call('HGET', keys.store, 'resumed_ms') or '0')
end

-- Offer a slot again whose lease ended early: its last holder was told, and says by a late return that it has stopped.
function releases.hear_stopped(slot, token, by)
  if not revocations.believed_in(slot) or redis.call('HGET', keys.revoked_tokens, slot) ~= token then return end
  if holders.is_foreign(by, redis.call('HGET', keys.slot(slot), 'last_holder'), true) then return end
  revocations.forget(slot)
  placing.offer_again(slot)
end

-- Take back a lease that was granted to a request and that no caller received, and place its slot. A ticket with an idempotency key
-- keeps the place it had. Of a bundle all leases are taken back. Returns {slot, token, ...}; nil when the lease is over.
function releases.take_back(request, slot, token, why)
  local live = bundles.live(bundles.id_of(token))
  if not live[1] and redis.call('HGET', keys.session(slot), 'leaseToken') == token then live = {{slot, token}} end
  if not live[1] then return nil end
  redis.call('DEL', keys.request(request))
  handoffs.keep_place(tickets.read(request))
  local taken = {}
  for _, each in ipairs(live) do
    tickets.settle_delivery(each[1], request)
    local record = slots.read(each[1])
    if record.place == 'lent' then releases.release(each[1], record, '0', 'grant.undone', why) end
    taken[#taken + 1], taken[#taken + 2] = each[1], each[2]
  end
  return taken
end

return releases
