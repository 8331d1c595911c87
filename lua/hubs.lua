-- Hubs: which of them tick, and who waits at them.
local hubs = {}

hubs.SILENT_MS = 3000  -- a hub that has not ticked for six periods is gone, and its waiters with it

-- Whether a hub ticks, so that it may answer its waiters.
function hubs.is_heard(hub)
  local ticked_ms = tonumber(redis.call('ZSCORE', keys.hubs, hub) or nil)
  return ticked_ms and store.clock_ms - ticked_ms <= hubs.SILENT_MS
end

-- Whether a hub has not ticked for longer than this.
function hubs.is_silent(hub, ms)
  local ticked_ms = redis.call('ZSCORE', keys.hubs, hub)
  return not ticked_ms or store.clock_ms - tonumber(ticked_ms) > ms
end

-- How many tickets of a run are in the queue, over all hubs; nil when there are too many waiters to count them in one go.
function hubs.waiters_of(run)
  local count, looked = 0, 0
  for _, hub in ipairs(redis.call('ZRANGE', keys.hubs, 0, -1)) do
    looked = looked + redis.call('SCARD', keys.waiters(hub))
    if looked > 2000 then return nil end
    for _, ticket in ipairs(redis.call('SMEMBERS', keys.waiters(hub))) do
      local t = redis.call('HMGET', keys.ticket(ticket), 'run', 'label')
      if t[1] == run and redis.call('ZSCORE', keys.queue(t[2]), ticket) then count = count + 1 end
    end
  end
  return count
end

return hubs
