-- The history: what happened, written down in the step that made it happen.
local history = {}

-- Write down what happened, in the step that made it happen: note('grant.lent', 'slot', slot, 'run', run, ...). Names
-- and facts alternate and none is nil; `why` is the short word of the rule. Names are those of hub/history/events.py.
-- One call costs about as much as a SET. A stream that cannot be written fails nothing. Redis trims it by a hundred
-- entries at a time in any case, so one note in sixteen asks for that.
local untrimmed = 15
function history.note(what, ...)
  untrimmed = untrimmed + 1
  if untrimmed < 16 then return redis.pcall('XADD', keys.history, '*', 'event', what, ...) end
  untrimmed = 0
  local most = redis.call('HGET', keys.store, 'history_max') or '20000'
  redis.pcall('XADD', keys.history, 'MAXLEN', '~', most, '*', 'event', what, ...)
end

-- Note what became of a slot or of its lease. of: slot node pool label run; unknown ones are left out.
function history.slot(what, of, why)
  history.note(what, 'slot', of.slot, 'node', of.node or '', 'pool', of.pool or '', 'label', of.label or '', 'run',
    of.run or '', 'why', why)
end

-- Note what became of a ticket.
function history.ticket(what, t, why)
  history.note(what, 'ticket', t.id, 'label', t.label, 'run', t.run or '', 'why', why)
end

-- No caller attends a ticket, which keeps its place. A caller that asks again and again comes and goes with each call: that is
-- noted once.
function history.away(t, why)
  if (why == 'timeout' or why == 'gone') and redis.call('HSETNX', keys.ticket(t.id), 'asks_again', '1') == 0 then return end
  redis.call('HSET', keys.ticket(t.id), 'told_away', '1')
  history.ticket('ticket.away', t, why)
end

return history
