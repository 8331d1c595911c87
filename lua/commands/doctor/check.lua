-- Check subjects of one kind, all at the same moment; changes nothing. Returns per subject a list of words for what is wrong with it;
-- hub/doctor/words.py says what each word means.
command.read('doctor/check', {
  'kind',                -- kind of the subjects: a name in doctor.checks
  'fields: number',      -- number of arguments for each subject
  'timeout_ms: number',  -- silence after which a node or worker is dead, and age at which a slot on offer must have a registered node
  'grace_ms: number',    -- how much longer it may last before a sweep must have ended it
  '...subjects',         -- the arguments of each subject
}, function(a, argv)
  local check, answers = doctor.checks[a.kind], {}
  store.job_terms = true  -- jobs are asked for their terms also where the store has forgotten that there are any
  local limits = {timeout_ms = a.timeout_ms, grace_ms = a.grace_ms}
  for i = 5, #argv, a.fields do
    local words = {}
    local function say(word, wrong) if wrong then words[#words + 1] = word end end
    check(say, limits, unpack(argv, i, i + a.fields - 1))
    answers[#answers + 1] = words
  end
  return answers
end)
