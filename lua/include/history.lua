-- @include store
-- Write down what happened, in the step that made it happen: note('grant.lent', 'slot', slot, 'run', run, ...). Names
-- and facts alternate and none is nil; `why` is the short word of the rule. Names are those of hub/history/events.py.
-- One call costs about as much as a SET. A stream that cannot be written fails nothing.
local function note(what, ...)
  redis.pcall('XADD', key_history, 'MAXLEN', '~', opened[7] or '20000', '*', 'event', what, ...)
end
