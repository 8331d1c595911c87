-- Put a label that is waited for where freed slots look for it, and serve it; drop what stands in the queue without a ticket.
-- Safe to repeat. Returns {'ok'}
command.change('doctor/repair_queue', {
  'label',
}, function(a)
  for _, ticket in ipairs(redis.call('ZRANGE', keys.queue(a.label), 0, 99)) do
    if redis.call('EXISTS', keys.ticket(ticket)) == 0 then redis.call('ZREM', keys.queue(a.label), ticket) end
  end
  if redis.call('EXISTS', keys.queue(a.label)) == 1 and not redis.call('ZSCORE', keys.turns, a.label) then turns.take(a.label) end
  serving.label(a.label)
  return {'ok'}
end)
