-- Look whether labels that are waited for stand where freed slots look for them, and no others. Changes nothing.
-- Returns per label a list of words; hub/doctor/words.py says what each means.
-- @rest labels
-- @include store
-- @include turns
local answers = {}
for i = 1, #ARGV do
  local label, words = ARGV[i], {}
  local first = redis.call('ZRANGE', key_line(label), 0, 0)[1]
  local turn = redis.call('ZSCORE', key_turns, label)
  if first and not turn then words[#words + 1] = 'no turn' end
  if turn and not first then words[#words + 1] = 'turn left' end
  if first and redis.call('EXISTS', key_ticket(first)) == 0 then words[#words + 1] = 'no ticket' end
  local wanted = first and turn and not capped(label) and turn or false
  local indexes = is_wild(label) and {key_wild} or {}
  if #indexes == 0 then
    for n, stem in ipairs(stems(label)) do indexes[n] = key_under(stem) end
  end
  for _, index in ipairs(indexes) do
    local has = redis.call('ZSCORE', index, label)
    if wanted and has ~= wanted then words[#words + 1] = 'not offered' break end
    if has and not wanted then words[#words + 1] = 'offered' break end
  end
  answers[#answers + 1] = words
end
return answers
