-- Put a label that is waited for where freed slots look for it, and serve it; drop what stands in line without a ticket.
-- Safe to repeat. Returns {'ok'}
command.change('doctor/mend_line', {
  'label',
}, function(a)
  for _, ticket in ipairs(redis.call('ZRANGE', keys.line(a.label), 0, 99)) do
    if redis.call('EXISTS', keys.ticket(ticket)) == 0 then redis.call('ZREM', keys.line(a.label), ticket) end
  end
  if redis.call('EXISTS', keys.line(a.label)) == 1 and not redis.call('ZSCORE', keys.turns, a.label) then turns.take(a.label) end
  serving.label(a.label)
  return {'ok'}
end)
