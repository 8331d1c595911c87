-- A slot of another realm was lent for a ticket of this one. While it is in the queue it is served by that, once and for all;
-- else that lease is to be taken back. Safe to repeat: the second time it is in the queue no more.
-- Returns {'served'} | {'over'} (it has a lease already, was given up, or no caller attends it)
command.change('queue/serve_elsewhere', {
  'ticket',
  'realm',    -- that lends it
  'request',  -- under which it was lent there
  'slot',
  'token',
  'keep_lease_s: number',  -- how long it is known which realm lends that slot: as long as a lease may last
}, function(a)
  local there = {realm = a.realm, request = a.request, slot = a.slot, token = a.token}
  return {spill_over.serve(tickets.read(a.ticket), there, a.keep_lease_s) and 'served' or 'over'}
end)
