-- Recalls: ends of tasks that hubs say again after the store was lost.
local recalls = {}

-- Repeat an end of a task in a store that may have lost it. An end is for good, even if the store let the task end otherwise since;
-- that a claim failed or was given back counts only where no later claim is known. Safe to repeat. Returns 'recalled' | 'known' (the
-- store knows an end) | 'newer' (the store knows a later claim).
function recalls.end_again(t, status, error, claim, request, worker, result)
  local waits, held = t.status == 'pending', t.status == 'claimed' or t.status == 'running'
  if not (waits or held) or tasks.was_heard(t, request) then return 'known' end
  local again = status == 'failed' and t.max and tonumber(t.attempt or '1') < tonumber(t.max)
  if again or status == 'pending' then
    if claim == '' or tonumber(t.claim or '0') > tonumber(claim) then return 'newer' end
    if waits and not again then return 'known' end
    if waits then blocked.take_out(t) end
  end
  history.note('task.recalled', 'task', t.id, 'job', t.job, 'why', status)
  if tonumber(claim ~= '' and claim or '0') > tonumber(t.claim or '0') then redis.call('HSET', keys.task(t.id), 'claim', claim) end
  if waits and worker ~= '' and not again then
    redis.call('HSET', keys.task(t.id), 'worker', worker)
    t.worker = worker
  end
  if again then outcomes.fail(t, error, request)
  elseif status == 'pending' then outcomes.give_back(t, request)
  else outcomes.close(t, status, error, request, result) end
  jobs.check_orphan(t.job)
  return 'recalled'
end

-- Keep an end for a task that no hub has submitted again yet: the hub that took the end may speak before the one that took the submit.
function recalls.wait_for(id, ...)
  redis.call('RPUSH', keys.early_ends(id), ...)
  redis.call('EXPIRE', keys.early_ends(id), keys.seconds.early_ends)
end

-- Keep the result of a task beside an end that was kept.
function recalls.keep_result(id, result)
  if result ~= '' then outcomes.keep_result(id, result, 'EX', keys.seconds.early_ends) end
end

-- End a task that was just made where a hub has said so before. Returns whether a hub had.
function recalls.end_made(id)
  if not tasks.may_come_back() then return false end
  if redis.call('EXISTS', keys.task_children(id)) == 1 then redis.call('HSET', keys.task(id), 'followed', '1') end
  local said = redis.call('LRANGE', keys.early_ends(id), 0, -1)
  for i = 1, #said, 5 do recalls.end_again(tasks.read(id), unpack(said, i, i + 4)) end
  redis.call('DEL', keys.early_ends(id))
  if #said > 0 then
    local completed = redis.call('HGET', keys.task(id), 'status') == 'completed'
    redis.call(completed and 'PERSIST' or 'DEL', keys.task_result(id))
  end
  return #said > 0
end

return recalls
