-- Spill-over: tickets of this realm that are served in another one. This store decides: a ticket that is in the queue is
-- taken out of it, and what its request is answered with says where its lease is.
local elsewhere = {}

-- What a request was answered with, where that is a lease in another realm; nil else.
function elsewhere.read(record)
  local asked, realm, request, slot, token = string.match(record or '', '^elsewhere (%S+) (%S+) (%S+) (%S+) (%d+)$')
  return asked and {asked = asked, realm = realm, request = request, slot = slot, token = token}
end

-- As a reply.
function elsewhere.said(there) return {'elsewhere', there.realm, there.request, there.slot, there.token} end

-- Whether the ticket was in the queue: then it is served there, and nowhere else. there: realm request slot token.
function elsewhere.serve(t, there, keep_lease_s)
  if not (t.label and redis.call('ZSCORE', keys.queue(t.label), t.id)) then return false end
  tickets.step_out(t)
  local record = table.concat({'elsewhere', t.fingerprint, there.realm, there.request, there.slot, there.token}, ' ')
  redis.call('SET', keys.request(t.id), record, 'EX', t.keep_s)
  handoffs.leave_place(t)
  redis.call('HSET', keys.elsewhere(there.slot), there.token, there.realm)
  redis.call('EXPIRE', keys.elsewhere(there.slot), keep_lease_s)
  history.note('ticket.elsewhere', 'ticket', t.id, 'label', t.label, 'run', t.run, 'slot', there.slot, 'realm', there.realm)
  notifications.publish(keys.granted(t.hub), t.id)
  return true
end

return elsewhere
