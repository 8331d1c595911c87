-- Check subjects of one kind in one moment. Changes nothing.
-- Returns per subject a list of words; hub/doctor/words.py and hub/doctor/job_words.py say what each means.
command.read('doctor/check', {
  'kind',                -- of the subjects: one of doctor.checks
  'fields: number',      -- arguments of one subject
  'timeout_ms: number',  -- after which a silent node or worker is dead, or a slot on offer must have a node on the books
  'grace_ms: number',    -- how much longer it may last before a sweep must have ended it
  '...subjects',
}, function(a, argv)
  local check, answers = doctor.checks[a.kind], {}
  local limits = {timeout_ms = a.timeout_ms, grace_ms = a.grace_ms}
  for i = 5, #argv, a.fields do
    local words = {}
    local function say(word, wrong) if wrong then words[#words + 1] = word end end
    check(say, limits, unpack(argv, i, i + a.fields - 1))
    answers[#answers + 1] = words
  end
  return answers
end)
