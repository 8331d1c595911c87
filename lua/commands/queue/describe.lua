-- Read the queues of labels; changes nothing. Returns per label {waiters, place of the label among the turns or 0, cap or 0 for none,
-- leases in flight, ms that a newcomer would wait or -1, {ticket, ...} (the first of the queue)}
command.read('queue/describe', {
  'count: number',  -- most tickets per label
  '...labels',
}, function(a, argv)
  local found = {}
  local function look(label)
    local waiting = redis.call('ZCARD', keys.queue(label))
    local rank = redis.call('ZRANK', keys.turns, label)
    local first = a.count > 0 and redis.call('ZRANGE', keys.queue(label), 0, a.count - 1) or {}
    return {waiting, rank and rank + 1 or 0, caps.of(label), redis.call('ZCARD', keys.in_flight(label)),
      tickets.estimate(label, waiting), first}
  end
  for i = 2, #argv do found[i - 1] = lenient.look({0, 0, 0, 0, -1, {}}, look, argv[i]) end
  return found
end)
