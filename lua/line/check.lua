-- What has become of the tickets a hub attends, for announcements that were lost; a hub with waiters is heard with it.
-- Safe to repeat. Returns a word per ticket: 'waiting' | 'granted' | 'gone' (the caller asks again, in its own way)
local hub = ARGV[1]
-- @rest tickets
-- @include store
if redis.call('EXISTS', key_waiters(hub)) == 1 then redis.call('ZADD', key_hubs, clock_ms, hub) end
local words = {}
for i = 2, #ARGV do
  local word = 'waiting'
  if redis.call('SISMEMBER', key_waiters(hub), ARGV[i]) == 0 then
    word = redis.call('EXISTS', key_request(ARGV[i])) == 1 and 'granted' or 'gone'
  end
  words[#words + 1] = word
end
return words
