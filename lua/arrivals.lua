-- Arrivals: who came first.
local arrivals = {}

-- The instant at which a newcomer arrives, ms since 1970: always after every other, and while the time of Redis is behind
-- the last one - it was set back, or another server took over - as much later as the hub clock says.
function arrivals.next_ms()
  local last = redis.call('HMGET', keys.store, 'line_ms', 'line_clock_ms')
  local at_ms, last_ms = store.now_us / 1000, tonumber(last[1] or '0')
  if at_ms > last_ms then return at_ms end
  return last_ms + math.max(1 / 1024, store.clock_ms - tonumber(last[2]))
end

-- How many stand before a newcomer.
function arrivals.ahead_of(label, priority)
  return redis.call('ZCOUNT', keys.queue(label), '-inf', string.format('%.17g', arrivals.next_ms() - priority * 1000))
end

return arrivals
