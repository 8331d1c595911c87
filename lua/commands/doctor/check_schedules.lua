-- Check at schedules: each stands where the sweeper finds it when it is due, and where people look. Changes nothing.
-- Returns per schedule a list of words; hub/doctor/job_words.py says what each means.
command.read('doctor/check_schedules', {
  '...schedules',
}, function(_, argv)
  local answers = {}
  for i, id in ipairs(argv) do
    local words, s = {}, schedules.read(id)
    local function say(word, wrong) if wrong then words[#words + 1] = word end end
    if s and schedules.is_whole(s) then
      say('not when it is due', redis.call('ZSCORE', keys.schedules, id) ~= schedules.place_of(s))
      say('unlisted', redis.call('ZSCORE', keys.room_schedules(s.room), s.name) ~= s.at)
    else
      say('record broken', redis.call('EXISTS', keys.schedule(id)) == 1)
    end
    answers[i] = words
  end
  return answers
end)
