-- The history: a stream of what happened; each event is written in the script that makes it happen.
local history = {}

-- Write an event: note('grant.lent', 'slot', slot, 'run', run, ...). Names and facts alternate and none is nil; `why` is the short word
-- of the rule. Names are those of hub/history/events.py. One call costs about as much as a SET. A stream that cannot be written makes
-- no call fail. Redis trims the stream by a hundred entries at a time, so only each sixteenth call asks for that.
local untrimmed = 15
function history.note(what, ...)
  untrimmed = untrimmed + 1
  if untrimmed < 16 then return redis.pcall('XADD', keys.history, '*', 'event', what, ...) end
  untrimmed = 0
  local most = redis.call('HGET', keys.store, 'history_max') or '20000'
  redis.pcall('XADD', keys.history, 'MAXLEN', '~', most, '*', 'event', what, ...)
end

-- Write an event about a slot or its lease. of: slot node pool label run holder; missing ones are written as ''.
function history.slot(what, of, why)
  if not of.holder then
    history.note(what, 'slot', of.slot, 'node', of.node or '', 'pool', of.pool or '', 'label', of.label or '', 'run',
      of.run or '', 'why', why)
    return
  end
  local by = holders.of(of.holder)
  history.note(what, 'slot', of.slot, 'node', of.node or '', 'pool', of.pool or '', 'label', of.label or '', 'run',
    of.run or '', 'user', by.user, 'team', by.team, 'name', by.name, 'why', why)
end

-- Write that a slot was lent to a ticket. found: slot node pool; wanted: label run ttl_ms holder.
function history.granted(what, found, ticket, wanted)
  local by = holders.of(wanted.holder)
  history.note(what, 'slot', found.slot, 'node', found.node, 'pool', found.pool, 'label', wanted.label, 'run', wanted.run,
    'ticket', ticket, 'ttl_ms', found.ttl_ms, 'user', by.user, 'team', by.team, 'name', by.name)
end

-- Write an event about a ticket.
function history.ticket(what, t, why)
  history.note(what, 'ticket', t.id, 'label', t.label, 'run', t.run or '', 'why', why)
end

-- Write that a task failed for the last time it might.
function history.dead(t)
  history.note('task.dead', 'task', t.id, 'job', t.job, 'attempt', t.attempt or '1', 'why', string.sub(t.error or '', 1, 500))
end

-- Write that no caller attends a ticket, which keeps its place. For a caller that asks again and again, which leaves with each call,
-- that is written once.
function history.away(t, why)
  if (why == 'timeout' or why == 'gone') and redis.call('HSETNX', keys.ticket(t.id), 'asks_again', '1') == 0 then return end
  redis.call('HSET', keys.ticket(t.id), 'told_away', '1')
  history.ticket('ticket.away', t, why)
end

return history
