-- Read where a borrow would stand in the queue of a label if it came now; changes nothing. Returns {position, estimated ms to wait or
-- -1}
command.read('queue/prospect', {
  'label',
  'priority: number',  -- a point counts as a second in the queue
  'want',              -- what it wants, '' for nothing in particular
}, function(a)
  local ahead = queue_order.ahead_of(a.label, a.priority, a.want)
  return {ahead + 1, tickets.estimate(a.label, ahead, a.want)}
end)
