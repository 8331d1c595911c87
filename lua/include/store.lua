-- The two times of every change: now_ms, the time of the Redis server, and clock_ms, the hub clock.
-- The hub clock moves only while a hub can hear: at most two tick periods (2 x 500 ms) past the last tick. A silence of
-- more than four was an outage and counts for nothing: a second of it would be the whole patience with some nodes.
-- A store that nobody has opened yet answers an error; the caller opens it and tries again.
-- Nothing late is done: a call carries the store and the hub clock as its hub heard them last (`told_of`, `told_ms`, which
-- the loader takes off the arguments; '' from a program that does not tick). A hub that knows another store, or has not
-- ticked for six periods, is taken to be gone: who asked it may have asked another one since.
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local opened = redis.call('HMGET', key_store, 'generation', 'clock_ms', 'tick_ms', 'settle_ms', 'options', 'timeout_ms',
  'history_max', 'reopened_ms', 'waiting', 'capped', 'token', 'born_ms', 'revoked_ms', 'grace_ms')
if not opened[1] then return redis.error_reply('UNOPENED no hub has opened this store') end
local silence_ms = math.max(0, now_ms - opened[3])
local clock_ms = opened[2] + (silence_ms > 2000 and 0 or math.min(silence_ms, 1000))
if told_of ~= '' and (told_of ~= opened[1] or clock_ms - told_ms > 3000) then
  return redis.error_reply('LATE this hub did not know how the store stands; nothing was done')
end
local settle_left_ms = (opened[4] or 0) - clock_ms
-- How labels are matched: '1' or '0' each.
local trailing, prefix, wildcards = string.match(opened[5] or '110', '(.)(.)(.)')
