-- @include store
-- Write down what happened, in the step that made it happen: note('grant.lent', 'slot', slot, 'run', run, ...). Names
-- and facts alternate and none is nil; `why` is the short word of the rule. Names are those of hub/history/events.py.
-- One call costs about as much as a SET. A stream that cannot be written fails nothing.
local function note(what, ...)
  redis.pcall('XADD', key_history, 'MAXLEN', '~', opened[7] or '20000', '*', 'event', what, ...)
end

-- What became of a slot or of its grant; of: slot node pool label run, what is not known is left out.
local function note_slot(what, of, why)
  note(what, 'slot', of.slot, 'node', of.node or '', 'pool', of.pool or '', 'label', of.label or '', 'run',
    of.run or '', 'why', why)
end

-- What became of a ticket.
local function note_ticket(what, t, why)
  note(what, 'ticket', t.id, 'label', t.label, 'run', t.run or '', 'why', why)
end
