-- Spill-over: tickets of this realm that are served in another one. This store decides: a ticket that is in the queue is taken out, and
-- the answer of its request says where its lease is.
local spill_over = {}

-- Return the lease in another realm that the answer of a request names: asked realm request slot token; else nil.
function spill_over.read(record)
  local asked, realm, request, slot, token = string.match(record or '', '^elsewhere (%S+) (%S+) (%S+) (%S+) (%d+)$')
  return asked and {asked = asked, realm = realm, request = request, slot = slot, token = token}
end

-- Return the reply of a command that says where the lease is.
function spill_over.said(there) return {'elsewhere', there.realm, there.request, there.slot, there.token} end

-- Serve a ticket in the other realm and nowhere else, if it is in the queue. Returns whether it was. there: realm request slot token.
function spill_over.serve(t, there, keep_lease_s)
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

return spill_over
