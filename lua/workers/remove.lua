-- Remove a worker: for its user, a superuser, or the sweeper, who looks again whether it is silent, or has hung up. Safe to repeat.
-- Returns {'ok', tasks that are left for `bury`} | {'worker'} (unknown) | {'forbidden'} | {'alive'} | {'superseded'}
local worker    = ARGV[1]
local user      = ARGV[2]
local superuser = ARGV[3]            -- '1' | '0'
local why       = ARGV[4]            -- deleted | silent | hung up
local silent_ms = tonumber(ARGV[5])  -- it must have been silent for longer on the hub clock, -1 for any
local limit     = tonumber(ARGV[6])  -- tasks failed in this step
local request   = ARGV[7]            -- a repeat of the one that removed it is answered as it was
local incarnation = ARGV[8]          -- the process that leaves, '' for any
-- @include remove_worker
-- @include incarnation
local owner = redis.call('HGET', key_worker(worker), 'user')
if not owner and redis.call('EXISTS', key_claim(request)) == 1 then return {'ok', redis.call('SCARD', key_worker_tasks(worker))} end
if not owner then return {'worker'} end
if is_superseded(worker, incarnation) then return {'superseded'} end
if superuser ~= '1' and owner ~= user then return {'forbidden'} end
local beat_ms = tonumber(redis.call('ZSCORE', key_worker_beats, worker) or '0')
if silent_ms >= 0 and clock_ms - beat_ms <= silent_ms then return {'alive'} end
if why == 'hung up' and tonumber(redis.call('ZSCORE', key_hung_up, worker) or 'inf') > clock_ms then return {'alive'} end
redis.call('SET', key_claim(request), '', 'EX', 60)
return {'ok', remove_worker(worker, why, limit)}
