-- Look whether a hub that is gone has left waiters or grants it never delivered. Changes nothing.
-- Returns per hub a list of words; hub/doctor/words.py says what each means.
local grace_ms = tonumber(ARGV[1])   -- after which they should be gone
-- @rest hubs
-- @include store
local answers = {}
for i = 2, #ARGV do
  local hub, words = ARGV[i], {}
  local heard = redis.call('ZSCORE', key_hubs, hub)
  if not heard or clock_ms - tonumber(heard) > grace_ms then
    if redis.call('EXISTS', key_waiters(hub)) == 1 then words[#words + 1] = 'waiters left' end
    if redis.call('EXISTS', key_handed(hub)) == 1 then words[#words + 1] = 'undelivered' end
  end
  answers[#answers + 1] = words
end
return answers
