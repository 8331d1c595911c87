-- Give a worker the oldest tasks of all the jobs it is linked to; never one of an @internal job. An empty claim looks at
-- the head of each queue and writes nothing, unless it has a key. Safe to repeat: the same request gets the same tasks, or
-- none, for a minute, a worker's last one that has a key for as long as it holds them. Each claim of a task has a name,
-- which only rises: reports say which claim they are about. After a loss there is nothing until hubs have said what ended.
-- Returns {'ok', task, ...} | {'settling', for so many ms} | {'worker'} (unknown) | {'forbidden'} (not the caller's)
--   | {'superseded'} (another process is the worker)
local worker     = ARGV[1]
local user       = ARGV[2]
local most       = tonumber(ARGV[3])
local start      = ARGV[4]            -- '1': they are running at once
local runtime_ms = tonumber(ARGV[5])  -- how long they may take, 0 for no limit
local request    = ARGV[6]
local keyed      = ARGV[7]            -- '1': the caller named the request, and may repeat it after any time
local incarnation = ARGV[9]           -- the process that is the worker, '' where it does not say so
local final      = ARGV[8]            -- '1': the caller is told when there is nothing, instead of waiting on
-- @include oldest_first
-- @include task_reply
local owner, last, held, process = unpack(redis.call('HMGET', key_worker(worker), 'user', 'claim', 'tasks', 'incarnation'))
if not owner then return {'worker'} end
if owner ~= user then return {'forbidden'} end
if incarnation ~= '' and process and process ~= incarnation then return {'superseded'} end
local answers = {'ok'}
local before = keyed == '1' and last == request and held or redis.call('GET', key_claim(request))
if before then
  for id, claim in string.gmatch(before, '(%x+):?(%d*)') do
    local t = read_task(id)
    if t and t.worker == worker and (claim == '' or claim == t.claim) and (t.status == 'claimed' or t.status == 'running') then
      answers[#answers + 1] = task_reply(t)
    end
  end
  return answers
end

if settle_left_ms > 0 then return {'settling', math.ceil(settle_left_ms)} end  -- a hub may have yet to say what ended

let_in(32)
local next_task, leave = oldest_first(worker, most)
local taken = {}
while #taken < most do
  local t = next_task()
  if not t then break end
  t.worker, t.claim = worker, digits(math.max(now_us, (t.claim or 0) + 1))
  relist(t, start == '1' and 'running' or 'claimed')
  if start == '1' then
    redis.call('HSET', key_task(t.id), 'status', t.status, 'worker', worker, 'last', request, 'claim', t.claim)
    t.status = 'claimed'  -- listeners see both steps
    emit_status(t)
    t.status, t.started = 'running', digits(now_us)
    redis.call('HSET', key_task(t.id), 'started', t.started)
  else
    redis.call('HSET', key_task(t.id), 'status', t.status, 'worker', worker, 'last', request,
      'claim', t.claim, 'claimed', clock_ms)
  end
  emit_status(t)
  redis.call('SADD', key_worker_tasks(worker), t.id)
  if runtime_ms > 0 then redis.call('ZADD', key_runtimes, clock_ms + runtime_ms, t.id) end
  taken[#taken + 1] = t.id .. ':' .. t.claim
  answers[#answers + 1] = task_reply(t)
end
leave()
if #taken > 0 and keyed == '1' then
  redis.call('HSET', key_worker(worker), 'claim', request, 'tasks', table.concat(taken, ','))
end
if #taken > 0 or (keyed == '1' and final == '1') then
  redis.call('SET', key_claim(request), table.concat(taken, ','), 'EX', 60)
end
return answers
