-- Look at what is kept for nodes by the key part of their id: whether it is anybody's. Changes nothing.
-- Returns per node a list of words; hub/doctor/words.py says what each means.
-- @rest parts                       per node: id as part of a key, raw id where that is known to differ or ''
-- @include registered
local answers = {}
for i = 1, #ARGV, 2 do
  local part, raw, words = ARGV[i], ARGV[i + 1], {}
  local leaving = redis.call('HEXISTS', key_leaving, part) == 1
  if leaving then words[#words + 1] = 'leaving' end
  if not leaving and not registered(part, raw) then
    if redis.call('EXISTS', key_node(part)) == 1 then words[#words + 1] = 'hash left' end
    local owns = redis.call('EXISTS', key_node_slots(part), key_lent(part)) > 0
    if not owns and redis.call('EXISTS', key_duty(part)) == 1 then words[#words + 1] = 'duty left' end
  end
  answers[#answers + 1] = words
end
return answers
