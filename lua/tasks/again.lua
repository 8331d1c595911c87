-- Submit a failed or cancelled task anew, as another task; the old one leaves the dead-letter list. Safe to repeat.
-- Returns {'ok', task} | {'task'} (unknown) | {'forbidden'} | {'conflict', status} | {'job', name} (not active)
local id        = ARGV[1]
local new       = ARGV[2]
local user      = ARGV[3]
local superuser = ARGV[4]            -- '1' | '0'
-- @include recalled
-- @include task_reply
local old = read_task(id)
if not old then return {'task'} end
if superuser ~= '1' and old.user ~= user then return {'forbidden'} end
local made = read_task(new)
if made then return {'ok', task_reply(made)} end
if old.status ~= 'failed' and old.status ~= 'cancelled' then return {'conflict', old.status} end
local job = redis.call('HMGET', key_job(old.job), 'at', 'deleted')
if not job[1] or job[2] or is_internal(old.job) then return {'job', old.job} end

local t = {id = new, job = old.job, room = old.room, user = user, status = 'pending', at = digits(next_us()), prio = old.prio}
redis.call('HSET', key_task(new), 'job', t.job, 'room', t.room, 'user', user, 'at', t.at, 'status', 'pending')
if old.prio then redis.call('HSET', key_task(new), 'prio', old.prio) end
if old.max then
  t.max, t.attempt = old.max, '1'
  redis.call('HSET', key_task(new), 'attempt', '1', 'max', old.max, 'backoff_ms', old.backoff_ms)
end
local payload = redis.call('GET', key_payload(id))
if payload then redis.call('SET', key_payload(new), payload) end
redis.call('ZREM', key_dead, id)
redis.call('HINCRBY', key_job(t.job), 'tasks', 1)
list_under(t, 'pending')
queue_up(t)
t.position = position_of(t)
emit_status(t)
emit_available(t)
if recall_early_ends(new) then t = read_task(new) end
return {'ok', task_reply(t)}
