-- Put a ticket back that was served in another realm, which took the lease back before a caller had it: with an idempotency key the
-- ticket keeps the place that it had. Safe to repeat. Returns {'ok'} | {'nothing'} (the ticket was not served with that lease)
command.finish('queue/unserve', {
  'ticket',
  'request',  -- the request id under which the slot was lent in the other realm
}, function(a)
  local there = spill_over.read(redis.call('GET', keys.request(a.ticket)))
  if not there or there.request ~= a.request then return {'nothing'} end
  redis.call('DEL', keys.request(a.ticket))
  redis.call('HDEL', keys.elsewhere(there.slot), there.token)
  handoffs.keep_place(tickets.read(a.ticket))
  return {'ok'}
end)
