-- Compare what a worker says it holds with what it holds here, after its beat. What it does not name, in beats that are
-- further apart than its patience, it has forgotten, or never heard of: that is given another attempt. What it names
-- and a store that was just away has forgotten is its own again; what has ended, or is another claim's, it has lost.
-- Safe to repeat. Returns {'ok', task it has lost, ...} | {'worker'} (unknown, or not the caller's)
--   | {'superseded'} (another process is the worker)
local worker      = ARGV[1]
local user        = ARGV[2]
local patience_ms = tonumber(ARGV[3])
local incarnation = ARGV[5]          -- the process that is the worker, '' where it does not say so
local open        = ARGV[4]          -- its claims without an answer yet, by line: what they took it cannot know of
-- @rest held                          per task: id, claim
-- @include settle_task
-- @include incarnation
local record = redis.call('HMGET', key_worker(worker), 'user', 'odd')
if record[1] ~= user then return {'worker'} end
if is_superseded(worker, incarnation) then return {'superseded'} end
local named, lost, here = {}, {'ok'}, {}
for i = 6, #ARGV, 2 do named[ARGV[i]] = ARGV[i + 1] end
local before, odd = {}, {}
for id, claim, since in string.gmatch(record[2] or '', '(%x+):(%d+):(%d+)') do before[id .. ':' .. claim] = tonumber(since) end

for _, id in ipairs(redis.call('SMEMBERS', key_worker_tasks(worker))) do
  local t = read_task(id)
  here[id] = t and t.claim
  if t and t.claim and named[id] ~= t.claim and not string.find(open, t.last or '?', 1, true) then
    local key = id .. ':' .. t.claim
    local since = before[key] or clock_ms
    if clock_ms - since < patience_ms then
      odd[#odd + 1] = string.format('%s:%.0f', key, since)
    else
      note('task.unheld', 'task', id, 'job', t.job, 'worker', worker)
      if t.status == 'claimed' then give_back(t, 'unheld:' .. key)
      else fail(t, 'Its worker does not know of it any more', 'unheld:' .. key) end
      check_orphan(t.job)
    end
  end
end
if #odd > 0 then redis.call('HSET', key_worker(worker), 'odd', table.concat(odd, ' '))
elseif record[2] then redis.call('HDEL', key_worker(worker), 'odd') end

-- Adopt a task that is claimed here by nobody, since the claim was lost.
local was_away = opened[8] and clock_ms - opened[8] < 4 * patience_ms
local function adopt(t, claim)
  unqueue(t)
  if redis.call('ZREM', key_later, t.id) == 1 then redis.call('HINCRBY', key_job(t.job), 'later', -1) end
  relist(t, 'running')
  t.worker, t.claim, t.started, t.due = worker, claim, digits(now_us), nil
  redis.call('HDEL', key_task(t.id), 'due')
  redis.call('HSET', key_task(t.id), 'status', 'running', 'worker', worker, 'claim', claim, 'started', t.started,
    'last', 'held:' .. claim)
  redis.call('SADD', key_worker_tasks(worker), t.id)
  note('task.held', 'task', t.id, 'job', t.job, 'worker', worker)
  emit_status(t)
end
for id, claim in pairs(named) do
  local t = here[id] ~= claim and read_task(id)
  local newer = t and tonumber(claim) > tonumber(t.claim or '0') and tonumber(claim) <= now_us
  if t and t.status == 'pending' and newer then
    if was_away and redis.call('SISMEMBER', key_worker_jobs(worker), t.job) == 1 then adopt(t, claim) end
  elseif t then
    lost[#lost + 1] = id
  end
end
return lost
