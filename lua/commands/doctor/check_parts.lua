-- Check at what is kept for nodes by the key part of their id: whether it is anybody's. Changes nothing.
-- Returns per node a list of words; hub/doctor/words.py says what each means.
command.read_unclocked('doctor/check_parts', {
  '...parts',  -- per node: id as part of a key, raw id where that is known to differ or ''
}, function(_, argv)
  local answers = {}
  for i = 1, #argv, 2 do
    local part, raw, words = argv[i], argv[i + 1], {}
    local leaving = redis.call('HEXISTS', keys.leaving, part) == 1
    if leaving then words[#words + 1] = 'leaving' end
    if not leaving and not nodes.registered(part, raw) then
      if redis.call('EXISTS', keys.node(part)) == 1 then words[#words + 1] = 'hash left' end
      local owns = redis.call('EXISTS', keys.node_slots(part), keys.lent(part)) > 0
      if not owns and redis.call('EXISTS', keys.orders(part)) == 1 then words[#words + 1] = 'duty left' end
    end
    answers[#answers + 1] = words
  end
  return answers
end)
