-- Check whether labels that are waited for stand where freed slots look for them, and no others. Changes nothing.
-- Returns per label a list of words; hub/doctor/words.py says what each means.
command.read('doctor/check_queues', {
  '...labels',
}, function(_, argv)
  local answers = {}
  for i = 1, #argv do
    local label, words = argv[i], {}
    local first = redis.call('ZRANGE', keys.queue(label), 0, 0)[1]
    local turn = redis.call('ZSCORE', keys.turns, label)
    if first and not turn then words[#words + 1] = 'no turn' end
    if turn and not first then words[#words + 1] = 'turn left' end
    if first and redis.call('EXISTS', keys.ticket(first)) == 0 then words[#words + 1] = 'no ticket' end
    local wanted = first and turn and not caps.reached(label) and turn or false
    local places = turns.is_wild(label) and {keys.wild} or {}
    if #places == 0 then
      for n, stem in ipairs(turns.stems(label)) do places[n] = keys.under(stem) end
    end
    for _, index in ipairs(places) do
      local has = redis.call('ZSCORE', index, label)
      if wanted and has ~= wanted then words[#words + 1] = 'not offered' break end
      if has and not wanted then words[#words + 1] = 'offered' break end
    end
    answers[#answers + 1] = words
  end
  return answers
end)
