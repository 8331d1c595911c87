-- The state of one call: what it has done so far. Every call begins with a new one.
local call_state = {}

call_state.dropped = {}   -- what was found in a list and cannot be lent: pool, reason, item, ...
call_state.headroom = {}  -- labels that were waited for while a lease under them ended: serving.opened looks at them again
call_state.reopened = {}  -- pools whose maintenance this call has ended: serving.opened serves from them

function call_state.begin()
  if call_state.dropped[1] then call_state.dropped = {} end
  if call_state.headroom[1] then call_state.headroom = {} end
  if call_state.reopened[1] then call_state.reopened = {} end
  call_state.looks = 200           -- left, at slots that cannot be lent, over all pools
  call_state.served = 0            -- waiters that got a slot which was free already
  call_state.left_to_resume = 256  -- slots of nodes that are heard again
  call_state.notified = nil            -- jobs whose waiting claims were told that there is a task
  call_state.told = nil            -- events that sockets were told
  call_state.listening = nil       -- whether any hub listens for events, once that was asked
  call_state.to_settle = 200           -- tasks that wait for one which is over, and may still hear of it
  call_state.settles = nil             -- whether they are being told
  call_state.last_us = nil         -- the last instant, once that was asked
end

return call_state
