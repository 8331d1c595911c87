-- Check whether slots stand in exactly the list that their record names. Changes nothing.
-- Returns per slot a list of words; hub/doctor/words.py says what each means.
command.read_unclocked('doctor/check_places', {
  '...seen',  -- per slot: JSON of [slot, [[place, label, item], ...]], where it was seen
}, function(_, argv)
  local answers = {}
  for i = 1, #argv do
    local slot, seen = unpack(cjson.decode(argv[i]))
    local r = redis.call('HMGET', keys.slot(slot), 'item', 'pool', 'place')
    local record = {item = r[1], pool = r[2], place = r[3]}
    local _, total, home = sightings.count(seen, record)
    local words = {}
    if total > 1 then words[#words + 1] = 'listed twice' end
    if record.place == 'held' then
      if total > 0 then words[#words + 1] = 'listed elsewhere' end
    elseif record.item and home == 0 then
      words[#words + 1] = total == 0 and 'listed nowhere' or 'listed elsewhere'
    end
    answers[i] = words
  end
  return answers
end)
