-- @include store
-- The time of the store in microseconds, and instants that never repeat: they order what was made.
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local last_us
local function next_us()
  last_us = last_us or tonumber(redis.call('HGET', key_store, 'last_us') or '0')
  last_us = math.max(last_us + 1, now_us)
  redis.call('HSET', key_store, 'last_us', last_us)
  return last_us
end

-- A number of microseconds as text; Lua's own would round it.
local function digits(us) return string.format('%.0f', us) end
