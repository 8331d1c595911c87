-- Let what the brake holds back pass, on all hubs: until not too many nodes are stale any more, or for for_ms.
-- Safe to repeat: whoever released it first stays. Returns {'off'} | {'released', by, at}
local by     = ARGV[1]
local for_ms = tonumber(ARGV[2])
local of     = ARGV[3]                  -- nodes | workers
-- @include store
-- @include time_text
-- @include history
local brake = of == 'workers' and key_worker_brake or key_brake
local was = redis.call('HMGET', brake, 'state', 'released_by', 'released_at')
if not was[1] then return {'off'} end
if was[1] == 'released' then return {'released', was[2], was[3]} end
local at = time_text(now_ms)
redis.call('HSET', brake, 'state', 'released', 'released_by', by, 'released_at', at, 'released_until_ms',
  clock_ms + for_ms, 'held', 0)
note('brake.released', 'of', of, 'by', by)
return {'released', by, at}
