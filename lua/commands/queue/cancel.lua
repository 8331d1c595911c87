-- Give up a ticket, for a caller that knows its id. The call that attends the ticket is told, and so is a call that repeats the request
-- within a minute. Safe to repeat. After a loss a hub repeats it, also when the store knows no such ticket any more.
-- Returns {'cancelled'} | {'granted', slot} (it has a lease: give that back instead) | {'granted', slot, bundle} (it has these leases)
--   | {'over', slot} (its lease has ended) | {'not-holder', holder, since when} (another caller's: nothing was done) | {'unknown'}
command.finish('queue/cancel', {
  'ticket',
  'recalled',  -- '1': a hub repeats the call after a loss
  'by',        -- who calls, as `holders.is_foreign` says
}, function(a)
  local before = redis.call('GET', keys.request(a.ticket))
  if before == 'undone' then return {'cancelled'} end
  local there = spill_over.read(before)
  if there then return {'granted', there.slot} end
  local slot, token = string.match(before or '', '^.-|(.*)|(%d+)|.-$')
  if slot then
    local rest = bundles.live(bundles.id_of(token))[1]
    if rest then return {'granted', rest[1], bundles.id_of(token)} end
    return {redis.call('HGET', keys.session(slot), 'leaseToken') == token and 'granted' or 'over', slot}
  end
  local t = tickets.read(a.ticket)
  if not t.label and a.recalled ~= '1' then return {'unknown'} end
  if t.label and holders.is_foreign(a.by, t.holder) then
    return {'not-holder', t.holder, times.text(tonumber(redis.call('HGET', keys.ticket(a.ticket), 'since_ms')))}
  end
  redis.call('SET', keys.request(a.ticket), 'undone', 'EX', 60)
  if not t.label then return {'cancelled'} end
  tickets.step_out(t)
  history.ticket('ticket.left', t, 'cancelled')
  redis.call('DEL', keys.ticket(a.ticket))
  redis.call('SET', keys.request(t.attempt), 'undone', 'EX', 60)
  notifications.publish(keys.granted(t.hub), a.ticket)
  serving.opened()
  return {'cancelled'}
end)
