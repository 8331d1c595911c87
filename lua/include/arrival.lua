-- @include store
-- The instant at which a newcomer arrives, ms since 1970: always after every other, and while the time of Redis is behind
-- the last one - it was set back, or another server took over - as much later as the hub clock says.
local function arrival_ms()
  local last = redis.call('HMGET', key_store, 'line_ms', 'line_clock_ms')
  local at_ms, last_ms = now_ms + time[2] % 1000 / 1000, tonumber(last[1] or '0')
  if at_ms > last_ms then return at_ms end
  return last_ms + math.max(1 / 1024, clock_ms - tonumber(last[2]))
end

-- How many stand before a newcomer.
local function ahead_of(label, priority)
  return redis.call('ZCOUNT', key_line(label), '-inf', string.format('%.17g', arrival_ms() - priority * 1000))
end
