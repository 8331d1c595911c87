-- The lines of some labels as they are. Returns per label {live waiters, its place in the rotation or 0, cap (0: none),
--   live grants, ms a newcomer would wait or -1, the first tickets of the line}
local count = tonumber(ARGV[1])      -- tickets per label
-- @rest labels
-- @include store
-- @include ticket
local found = {}
for i = 2, #ARGV do
  local label = ARGV[i]
  local waiting = redis.call('ZCARD', key_line(label))
  local rank = redis.call('ZRANK', key_turns, label)
  local first = count > 0 and redis.call('ZRANGE', key_line(label), 0, count - 1) or {}
  found[#found + 1] = {waiting, rank and rank + 1 or 0, cap_of(label), redis.call('ZCARD', key_asked(label)),
    estimate(label, waiting), first}
end
return found
