-- Check whether tickets that wait are attended, and those nobody attends will go. Changes nothing.
-- Returns per ticket a list of words; hub/doctor/words.py says what each means.
command.read('doctor/check_tickets', {
  'grace_ms: number',  -- after which a silent hub's waiters should be gone
  '...tickets',
}, function(a, argv)
  local answers = {}
  for i = 2, #argv do
    local t, words = tickets.read(argv[i]), {}
    local waits = t.label and redis.call('ZSCORE', keys.queue(t.label), t.id)
    local patience = redis.call('ZSCORE', keys.ticket_deadlines, t.id)
    if waits then
      if redis.call('SISMEMBER', keys.waiters(t.hub), t.id) == 0 then words[#words + 1] = 'unattended' end
      if not patience then words[#words + 1] = 'endless' end
      local heard = redis.call('ZSCORE', keys.hubs, t.hub)
      if not heard or store.clock_ms - tonumber(heard) > a.grace_ms then words[#words + 1] = 'abandoned' end
    elseif t.label and not patience and redis.call('PTTL', keys.ticket(t.id)) == -1 then
      words[#words + 1] = 'left'
    end
    answers[#answers + 1] = words
  end
  return answers
end)
