-- What has become of the tickets a hub attends, for announcements that were lost; the hub is heard with it. Also serves
-- the lines of some labels again: slots may have appeared unnoticed. Safe to repeat.
-- Returns a word per ticket: 'waiting' | 'granted' | 'gone' (the caller asks again, in its own way)
local hub    = ARGV[1]
local labels = tonumber(ARGV[2])     -- how many labels come before the tickets
-- @rest labels_and_tickets
-- @include store
-- @include serve
redis.call('ZADD', key_hubs, clock_ms, hub)
for i = 3, labels + 2 do serve_label(ARGV[i]) end
serve_opened()
local words = {}
for i = labels + 3, #ARGV do
  local word = 'waiting'
  if redis.call('SISMEMBER', key_waiters(hub), ARGV[i]) == 0 then
    word = redis.call('EXISTS', key_request(ARGV[i])) == 1 and 'granted' or 'gone'
  end
  words[#words + 1] = word
end
return words
