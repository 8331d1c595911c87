-- Check whether the indexes of pool labels say what there is. Changes nothing.
-- Returns per label a list of words; hub/doctor/words.py says what each means.
command.read_unclocked('doctor/check_pools', {
  '...labels',  -- per label: label, number of segments of the index it was found in
}, function(_, argv)
  local answers = {}
  for i = 1, #argv, 2 do
    local label, segments, words = argv[i], argv[i + 1], {}
    local _, colons = string.gsub(label, ':', '')
    local published = redis.call('EXISTS', keys.pool_slots(label)) == 1
    local free = redis.call('EXISTS', keys.available(label)) == 1
    local known = redis.call('ZSCORE', keys.pools, label)
    local open = redis.call('ZSCORE', keys.open_pools(segments), label)
    if published and not known then words[#words + 1] = 'pool unknown' end
    if known and not published then words[#words + 1] = 'pool left' end
    if tonumber(segments) ~= colons + 1 then
      if open then words[#words + 1] = 'open left' end
    else
      if free and published and not open then words[#words + 1] = 'not open' end
      if open and not free and not published then words[#words + 1] = 'open left' end
    end
    answers[#answers + 1] = words
  end
  return answers
end)
