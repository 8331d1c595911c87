-- Look whether tickets that wait are attended, and those nobody attends will go. Changes nothing.
-- Returns per ticket a list of words; hub/doctor/words.py says what each means.
local grace_ms = tonumber(ARGV[1])   -- after which a silent hub's waiters should be gone
-- @rest tickets
-- @include store
-- @include ticket
local answers = {}
for i = 2, #ARGV do
  local t, words = read_ticket(ARGV[i]), {}
  local waits = t.label and redis.call('ZSCORE', key_line(t.label), t.id)
  local patience = redis.call('ZSCORE', key_patience, t.id)
  if waits then
    if redis.call('SISMEMBER', key_waiters(t.hub), t.id) == 0 then words[#words + 1] = 'unattended' end
    if not patience then words[#words + 1] = 'endless' end
    local heard = redis.call('ZSCORE', key_hubs, t.hub)
    if not heard or clock_ms - tonumber(heard) > grace_ms then words[#words + 1] = 'abandoned' end
  elseif t.label and not patience and redis.call('PTTL', key_ticket(t.id)) == -1 then
    words[#words + 1] = 'left'
  end
  answers[#answers + 1] = words
end
return answers
