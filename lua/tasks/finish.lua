-- Take what a worker says of tasks it holds, many at once. Safe to repeat: a request that has been heard is 'ok' again. A
-- report that names the claim it is about counts for no other one.
-- Returns a word per result: 'ok' | 'gone' (no such task) | 'forbidden' (the worker does not hold it) | 'conflict' (also: it
--   was claimed again) | {'worker'} (unknown) | {'owner'} (not the caller's)
local worker  = ARGV[1]
local user    = ARGV[2]
local request = ARGV[3]
-- @rest results                      per result: task, status, error, claim ('' where it names none)
-- @include settle_task
local owner = redis.call('HGET', key_worker(worker), 'user')
if not owner then return {'worker'} end
if owner ~= user then return {'owner'} end
local jobs, words = {}, {}
local function take(id, status, error, claim)
  local t, request = read_task(id), request .. ':' .. status
  if not t then return 'gone' end
  if was_heard(t, request) then return 'ok' end
  if t.worker ~= worker then return t.worker and 'forbidden' or 'conflict' end
  if claim ~= '' and claim ~= t.claim then return 'conflict' end
  local held = t.status == 'claimed' or t.status == 'running'
  if not held or (status == 'running' and t.status == 'running') then return 'conflict' end
  if status == 'completed' and t.status == 'claimed' then return 'conflict' end
  if status == 'pending' then
    give_back(t, request)
  elseif status == 'running' then
    relist(t, status)
    t.started = digits(now_us)
    redis.call('HSET', key_task(id), 'status', status, 'started', t.started, 'last', request)
    emit_status(t)
  else
    if status == 'failed' then fail(t, error, request) else close(t, status, error, request) end
    jobs[t.job] = true
  end
  return 'ok'
end
for i = 4, #ARGV, 4 do words[#words + 1] = take(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]) end
for full in pairs(jobs) do check_orphan(full) end
return words
