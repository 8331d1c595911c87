-- Serve a ticket with a lease that another realm made for it, if the ticket is still in the queue; else the caller has to take that
-- lease back. Safe to repeat: a ticket that was served is in the queue no more. Returns {'served'} | {'over'} (it is not in the queue:
-- it has a lease, was given up, or no caller attends it)
command.change('queue/serve_elsewhere', {
  'ticket',
  'realm',                 -- the realm that lends the slot
  'request',               -- the request id under which it was lent there
  'slot',
  'token',                 -- token of the lease
  'keep_lease_s: number',  -- for how many seconds it is known which realm lends the slot: as long as a lease may last
}, function(a)
  local there = {realm = a.realm, request = a.request, slot = a.slot, token = a.token}
  return {spill_over.serve(tickets.read(a.ticket), there, a.keep_lease_s) and 'served' or 'over'}
end)
