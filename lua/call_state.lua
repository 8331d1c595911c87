-- The state of one call: what the call has done so far. Each call begins with a fresh state.
local call_state = {}

call_state.dropped = {}     -- items found in a list that cannot be lent: pool, reason, item, and so on
call_state.headroom = {}    -- labels that tickets wait for and under which a lease ended: serving.opened serves them
call_state.roomy = {}       -- labels whose caps on what is served have room again: serving.opened serves from the pools below
call_state.released = {}    -- slot that became free while such a cap has room -> run of its last lease
call_state.reopened = {}    -- pools whose maintenance this call has ended: serving.opened serves their waiters
call_state.torn = nil       -- true when leases are to end with others of their bundles: serving.opened ends them
call_state.unneeded = {}    -- slots that are set aside and that their bundle cannot use: bundle_ends.offer_unused offers them
call_state.teams = {}       -- teams that have room under a ceiling again, and their tickets wait: serving.opened serves them
call_state.team = nil       -- the team that borrows, where there are rows for teams: pools in which it is at its ceiling are passed by
call_state.groups = {}      -- groups of tasks that have room under a limit of their job: job_queue.let_others_in lets others in
call_state.by_worker = nil    -- true while tasks end because their worker says so
call_state.task_ends = nil    -- true while leases end because their task has ended
call_state.sets_aside = nil -- true while slots are taken that are only set aside: caps on what is served do not count
call_state.unreserved = nil -- true when slots are set aside for no bundle any more: serving.opened offers them
call_state.passed_over = {} -- labels in which waiters may have been passed over behind tickets of a hub that is gone: list and set

-- Reset the state at the beginning of a call.
function call_state.begin()
  if call_state.dropped[1] then call_state.dropped = {} end
  if call_state.headroom[1] then call_state.headroom = {} end
  if call_state.unneeded[1] then call_state.unneeded = {} end
  if call_state.teams[1] then call_state.teams = {} end
  if call_state.groups[1] then call_state.groups = {} end
  call_state.limits, call_state.needs, call_state.task_ends, call_state.by_worker = nil, nil, nil, nil
  call_state.torn, call_state.unreserved, call_state.sets_aside, call_state.team = nil, nil, nil, nil
  if call_state.passed_over[1] then call_state.passed_over = {} end
  if call_state.reopened[1] then call_state.reopened = {} end
  if call_state.roomy[1] then call_state.roomy, call_state.released = {}, {} end
  call_state.looks = 200           -- how many more items that cannot be lent may be looked at, over all pools
  call_state.served = 0            -- how many waiters got a slot that was free already
  call_state.left_to_resume = 256  -- how many more held slots of nodes that are heard again may be offered
  call_state.left_to_look = 1000   -- how many more slots may be looked at for bundles, one by one
  call_state.notified = nil            -- set of jobs whose channel was told in this call that a task can be claimed
  call_state.told = nil            -- set of events that this call has published for sockets
  call_state.listening = nil       -- whether any hub listens for events; nil until that was asked
  call_state.to_settle = 200           -- how many more waiting tasks may be told in this call that a parent is over
  call_state.settles = nil             -- true while chains.go_on runs
  call_state.lines_asked = 0       -- how many lines of tickets were held against new classes in this call
  call_state.entered = nil         -- how many slots with a class have entered a free list in this call
  call_state.last_us = nil         -- the last instant of store.next_us; nil until it was read
end

return call_state
