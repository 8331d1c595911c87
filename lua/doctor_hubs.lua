-- Checks and repairs of what hubs keep for their waiters.
local doctor_hubs = {}

-- Whether the number of waiters kept for a run is right.
function doctor_hubs.check_run(say, _, run)
  local count = hubs.waiters_of(run)
  say('miscounted', count and count ~= tonumber(redis.call('HGET', keys.pending, run) or '0'))
end

function doctor_hubs.repair_run(run)
  local count = hubs.waiters_of(run)
  if count == 0 then redis.call('HDEL', keys.pending, run) end
  if count and count > 0 then redis.call('HSET', keys.pending, run, count) end
end

-- Whether a hub that is gone has left waiters or leases it never delivered.
function doctor_hubs.check(say, limits, hub)
  if not hubs.is_silent(hub, limits.grace_ms) then return end
  say('waiters left', redis.call('EXISTS', keys.waiters(hub)) == 1)
  say('undelivered', redis.call('EXISTS', keys.handed(hub)) == 1)
end

-- List a hub that left waiters or leases among the hubs that are gone, for its waiters to be dropped.
function doctor_hubs.repair(hub) redis.call('ZADD', keys.hubs, 'NX', store.clock_ms - 60000, hub) end

return doctor_hubs
