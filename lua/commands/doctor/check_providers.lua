-- Check at providers: each has a worker that answers for it, and is listed where people look. Changes nothing.
-- Returns per provider a list of words; hub/doctor/job_words.py says what each means.
command.read('doctor/check_providers', {
  '...providers',
}, function(_, argv)
  local answers = {}
  for i, full in ipairs(argv) do
    local words = {}
    local function say(word, wrong) if wrong then words[#words + 1] = word end end
    local id, at, worker = unpack(redis.call('HMGET', keys.provider(full), 'id', 'at', 'worker'))
    if id and at and worker then
      say('of nobody', redis.call('EXISTS', keys.worker(worker)) == 0)
      say('unlisted', tonumber(redis.call('ZSCORE', keys.room_providers(names.room_of(full)), full) or '') ~= tonumber(at))
      say('not of its worker', redis.call('SISMEMBER', keys.worker_providers(worker), full) == 0)
      say('unnamed', redis.call('GET', keys.provider_name(id)) ~= full)
    else
      say('record broken', redis.call('EXISTS', keys.provider(full)) == 1)
    end
    answers[i] = words
  end
  return answers
end)
