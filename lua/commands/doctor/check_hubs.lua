-- Check whether a hub that is gone has left waiters or leases it never delivered. Changes nothing.
-- Returns per hub a list of words; hub/doctor/words.py says what each means.
command.read('doctor/check_hubs', {
  'grace_ms: number',  -- after which they should be gone
  '...hubs',
}, function(a, argv)
  local answers = {}
  for i = 2, #argv do
    local hub, words = argv[i], {}
    local heard = redis.call('ZSCORE', keys.hubs, hub)
    if not heard or store.clock_ms - tonumber(heard) > a.grace_ms then
      if redis.call('EXISTS', keys.waiters(hub)) == 1 then words[#words + 1] = 'waiters left' end
      if redis.call('EXISTS', keys.handed(hub)) == 1 then words[#words + 1] = 'undelivered' end
    end
    answers[#answers + 1] = words
  end
  return answers
end)
