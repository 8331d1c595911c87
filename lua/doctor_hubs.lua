-- Checks and repairs of what hubs keep for waiters.
local doctor_hubs = {}

-- Check that the stored number of waiters of a run is the number of its tickets in the queues.
function doctor_hubs.check_run(say, _, run)
  local count = hubs.waiters_of(run)
  say('miscounted', count and count ~= tonumber(redis.call('HGET', keys.pending, run) or '0'))
end

-- Store the number of waiters of a run as it is counted now.
function doctor_hubs.repair_run(run)
  local count = hubs.waiters_of(run)
  if count == 0 then redis.call('HDEL', keys.pending, run) end
  if count and count > 0 then redis.call('HSET', keys.pending, run, count) end
end

-- Check that a hub that no longer ticks has left no waiters, and no leases that it did not deliver.
function doctor_hubs.check(say, limits, hub)
  if not hubs.is_silent(hub, limits.grace_ms) then return end
  say('waiters left', redis.call('EXISTS', keys.waiters(hub)) == 1)
  say('undelivered', redis.call('EXISTS', keys.handed(hub)) == 1)
end

-- List a hub among those that no longer tick, so that the sweeper (queue/retire) drops what it left.
function doctor_hubs.repair(hub) redis.call('ZADD', keys.hubs, 'NX', store.clock_ms - 60000, hub) end

return doctor_hubs
