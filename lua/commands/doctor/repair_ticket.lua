-- Let a ticket that waits be attended by its hub again for as long as it said, and drop one that nobody would ever drop.
-- Safe to repeat. Returns {'ok'}
command.change('doctor/repair_ticket', {
  'ticket',
}, function(a)
  local t = tickets.read(a.ticket)
  if t.label and redis.call('ZSCORE', keys.queue(t.label), a.ticket) then
    local until_ms = tonumber(redis.call('HGET', keys.ticket(a.ticket), 'until_ms') or store.clock_ms)
    redis.call('SADD', keys.waiters(t.hub), a.ticket)
    redis.call('ZADD', keys.ticket_deadlines, 'NX', until_ms + 2000, a.ticket)
  elseif t.label and not redis.call('ZSCORE', keys.ticket_deadlines, a.ticket) and redis.call('PTTL', keys.ticket(a.ticket)) == -1 then
    redis.call('DEL', keys.ticket(a.ticket))
  end
  return {'ok'}
end)
