-- @include settle_task
-- Ends of tasks that hubs say again to a store that may have lost them. An end is for good, whatever the store let happen
-- since; that a claim failed or was given back counts only where no later one is known. Safe to repeat.
-- Returns 'recalled' | 'known' | 'newer' (than what is said)
local function recall_end(t, status, error, claim, request, worker)
  local waits, held = t.status == 'pending', t.status == 'claimed' or t.status == 'running'
  if not (waits or held) or was_heard(t, request) then return 'known' end
  local again = status == 'failed' and t.max and tonumber(t.attempt or '1') < tonumber(t.max)
  if again or status == 'pending' then
    if claim == '' or tonumber(t.claim or '0') > tonumber(claim) then return 'newer' end
    if waits and not again then return 'known' end
    if waits then
      unqueue(t)
      if redis.call('ZREM', key_later, t.id) == 1 then redis.call('HINCRBY', key_job(t.job), 'later', -1) end
    end
  end
  note('task.recalled', 'task', t.id, 'job', t.job, 'why', status)
  if tonumber(claim ~= '' and claim or '0') > tonumber(t.claim or '0') then redis.call('HSET', key_task(t.id), 'claim', claim) end
  if waits and worker ~= '' and not again then
    redis.call('HSET', key_task(t.id), 'worker', worker)
    t.worker = worker
  end
  if again then fail(t, error, request)
  elseif status == 'pending' then give_back(t, request)
  else close(t, status, error, request) end
  check_orphan(t.job)
  return 'recalled'
end

-- The hub that took an end may speak before the one that knows of the submit: the end waits for the task.
local AWAITED_S = 60

local function await_task(id, ...)
  redis.call('RPUSH', key_early_ends(id), ...)
  redis.call('EXPIRE', key_early_ends(id), AWAITED_S)
end

-- A task was made: it has ended already where a hub has said so. Returns whether one had.
local function recall_early_ends(id)
  if not opened[8] or clock_ms - opened[8] > AWAITED_S * 1000 then return false end
  local said = redis.call('LRANGE', key_early_ends(id), 0, -1)
  for i = 1, #said, 5 do recall_end(read_task(id), unpack(said, i, i + 4)) end
  redis.call('DEL', key_early_ends(id))
  return #said > 0
end
