-- What a call has done so far: every call begins with this anew.
local work = {}

work.dropped = {}   -- what was found in a list and cannot be lent: pool, reason, item, ...
work.headroom = {}  -- labels that were waited for while a lease under them ended: serving.opened looks at them again
work.reopened = {}  -- pools whose maintenance this call has ended: serving.opened serves from them

function work.begin()
  if work.dropped[1] then work.dropped = {} end
  if work.headroom[1] then work.headroom = {} end
  if work.reopened[1] then work.reopened = {} end
  work.looks = 200           -- left, at slots that cannot be lent, over all pools
  work.served = 0            -- waiters that got a slot which was free already
  work.left_to_resume = 256  -- slots of nodes that are heard again
  work.notified = nil            -- jobs whose waiting claims were told that there is a task
  work.told = nil            -- events that sockets were told
  work.listening = nil       -- whether any hub listens for events, once that was asked
  work.to_settle = 200           -- tasks that wait for one which is over, and may still hear of it
  work.settles = nil             -- whether they are being told
  work.last_us = nil         -- the last instant, once that was asked
end

return work
