-- Queue tasks again that a worker claimed and has not started within the threshold, or fail those that were brought back too
-- often. All is looked at again here. Safe to repeat: what was brought back is not claimed any more, and who claims it next has
-- all the time again. Whoever held one finds a conflict when it reports, as long as nobody has claimed it. After that its results
-- (tasks/finish) are forbidden, for they say whose they are; tasks/move knows only users, so there a worker of the same user
-- still moves it.
-- Returns per task: 0 (not stuck) | 1 (queued again) | 2 (failed)
local threshold_ms = tonumber(ARGV[1])  -- on the hub clock
local most         = tonumber(ARGV[2])  -- times a task is brought back, 0 for any number
local error        = ARGV[3]            -- of one that fails
-- @rest tasks
-- @include settle_task
local answers, jobs = {}, {}
local function unstick(id)
  local t = read_task(id)
  if not (t and t.status == 'claimed' and t.worker) or is_internal(t.job) then return 0 end
  local claimed, before = unpack(redis.call('HMGET', key_task(id), 'claimed', 'unstuck'))
  if not claimed or clock_ms - tonumber(claimed) <= threshold_ms then return 0 end
  local request = 'unstuck:' .. id
  if most > 0 and tonumber(before or '0') >= most then
    note('task.unstuck', 'task', id, 'job', t.job, 'worker', t.worker, 'why', 'failed')
    close(t, 'failed', error, request)
    jobs[t.job] = true
    return 2
  end
  redis.call('HINCRBY', key_task(id), 'unstuck', 1)
  note('task.unstuck', 'task', id, 'job', t.job, 'worker', t.worker, 'why', 'queued')
  give_back(t, request)
  return 1
end
for i = 4, #ARGV do answers[i - 3] = unstick(ARGV[i]) end
for full in pairs(jobs) do check_orphan(full) end
return answers
