-- Register a job for a worker: create it, take a soft-deleted one back under the schema given, or join an active one whose
-- schema is the same. A refusal leaves no trace. Safe to repeat.
-- Returns {'created' | 'joined', id, worker, workers, perhaps the process that was the worker before} | {'conflict'}
--   | {'worker'} (unknown, or not the caller's) | {'superseded'} (the process was the worker, and another is)
local full     = ARGV[1]
local id       = ARGV[2]             -- for a job that is new
local schema   = ARGV[3]
local digest   = ARGV[4]             -- the same for schemas that are equal
local worker   = ARGV[5]
local user     = ARGV[6]
local made_for = ARGV[7]             -- '1': the worker is new
local incarnation = ARGV[8]          -- the process that is the worker, '' where it does not say so
-- @include worker
-- @include orphan
-- @include incarnation
local job = redis.call('HMGET', key_job(full), 'id', 'digest', 'deleted', 'back')
if job[1] and not job[3] and job[2] ~= digest then return {'conflict'} end
local owner = redis.call('HGET', key_worker(worker), 'user')
if owner ~= user and not (made_for == '1' and not owner) then return {'worker'} end
local is_it, before = true, nil
if owner then is_it, before = take_over(worker, incarnation) end
if not is_it then return {'superseded'} end

local joined = job[1] and not job[3] and job[1] ~= id and job[4] ~= id
if not job[1] then
  local at = digits(next_us())
  redis.call('HSET', key_job(full), 'id', id, 'at', at, 'schema', schema, 'digest', digest)
  redis.call('ZADD', key_room_jobs(room_of(full)), at, full)
elseif revive(full) then
  redis.call('HSET', key_job(full), 'schema', schema, 'digest', digest, 'back', id)  -- a repeat is to know its work
end
if not owner then
  create_worker(worker, user)
  take_over(worker, incarnation)
end
link(worker, full)
emit_jobs(room_of(full))
return {joined and 'joined' or 'created', job[1] or id, worker, redis.call('SMEMBERS', key_job_workers(full)), before}
