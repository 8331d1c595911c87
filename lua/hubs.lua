-- Hubs: which of them tick, and how many tickets wait at them.
local hubs = {}

hubs.SILENT_MS = 3000  -- a hub that has not ticked for this long (six tick periods) counts as gone

-- Return whether a hub has ticked within SILENT_MS, so that it can answer its waiters.
function hubs.is_heard(hub)
  local ticked_ms = tonumber(redis.call('ZSCORE', keys.hubs, hub) or nil)
  return ticked_ms and store.clock_ms - ticked_ms <= hubs.SILENT_MS
end

-- Return whether a hub has not ticked for longer than `ms`.
function hubs.is_silent(hub, ms)
  local ticked_ms = redis.call('ZSCORE', keys.hubs, hub)
  return not ticked_ms or store.clock_ms - tonumber(ticked_ms) > ms
end

-- Drop a silent hub. The store keeps which one was the last that has vanished without a word, and when it was heard, in Redis time.
function hubs.drop(hub)
  local ticked_ms = tonumber(redis.call('ZSCORE', keys.hubs, hub))
  redis.call('ZREM', keys.hubs, hub)
  if ticked_ms == 0 then return end
  redis.call('HSET', keys.store, 'lost_hub', hub, 'lost_hub_ms', numbers.whole(store.now_ms - store.clock_ms + ticked_ms))
end

-- Count the tickets of a run in the queue, over all hubs. Returns nil when the hubs have more than 2,000 waiters, too many for one
-- call.
function hubs.waiters_of(run)
  local count, looked = 0, 0
  for _, hub in ipairs(redis.call('ZRANGE', keys.hubs, 0, -1)) do
    looked = looked + redis.call('SCARD', keys.waiters(hub))
    if looked > 2000 then return nil end
    for _, ticket in ipairs(redis.call('SMEMBERS', keys.waiters(hub))) do
      local t = redis.call('HMGET', keys.ticket(ticket), 'run', 'label')
      local waits = t[2] and (redis.call('ZSCORE', keys.queue(t[2]), ticket) or redis.call('ZSCORE', keys.bundles, ticket))
      if t[1] == run and waits then count = count + 1 end
    end
  end
  return count
end

return hubs
