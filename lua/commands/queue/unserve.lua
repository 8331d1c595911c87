-- The other realm took back the lease by which a ticket was served there, before a caller had it: with a key it keeps the place
-- that it had. Safe to repeat.
-- Returns {'ok'} | {'nothing'} (that is not what it was served by)
command.finish('queue/unserve', {
  'ticket',
  'request',  -- under which it was lent there
}, function(a)
  local there = spill_over.read(redis.call('GET', keys.request(a.ticket)))
  if not there or there.request ~= a.request then return {'nothing'} end
  redis.call('DEL', keys.request(a.ticket))
  redis.call('HDEL', keys.elsewhere(there.slot), there.token)
  handoffs.keep_place(tickets.read(a.ticket))
  return {'ok'}
end)
