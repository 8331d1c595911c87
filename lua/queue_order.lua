-- The order of the queue: when a newcomer arrives, and how many tickets stand before it.
local queue_order = {}

-- Return the instant at which a newcomer arrives, in ms since 1970, later than every instant before. While the time of Redis is behind
-- the last one (it was set back, or another server took over), the hub clock says how much later.
function queue_order.next_ms()
  local last = redis.call('HMGET', keys.store, 'line_ms', 'line_clock_ms')
  local at_ms, last_ms = store.now_us / 1000, tonumber(last[1] or '0')
  if at_ms > last_ms then return at_ms end
  return last_ms + math.max(1 / 1024, store.clock_ms - tonumber(last[2]))
end

-- Return how many tickets of a label that want the same would stand before a newcomer.
function queue_order.ahead_of(label, priority, want)
  local line = (want or '') == '' and turns.plain(label) or keys.want_line(label .. ' ' .. want)
  return redis.call('ZCOUNT', line, '-inf', string.format('%.17g', queue_order.next_ms() - priority * 1000))
end

-- Return the score of a newcomer as text: its arrival in ms, less a second per point of priority, so that no ticket waits for ever. No two
-- newcomers arrive at the same instant.
function queue_order.next_score(priority)
  local at_ms = queue_order.next_ms()
  redis.call('HSET', keys.store, 'line_ms', string.format('%.17g', at_ms), 'line_clock_ms', store.clock_ms)
  return string.format('%.17g', at_ms - priority * 1000)
end

return queue_order
