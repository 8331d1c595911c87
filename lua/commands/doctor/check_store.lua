-- Check at what every call reads of the store: the token counter starts above every token that was issued before the
-- store was opened; whether anybody waits, and whether there is a cap. Changes nothing.
-- Returns one list of words; hub/doctor/words.py says what each means.
command.read('doctor/check_store', {
  '...ignored',
}, function()
  local said = redis.call('HMGET', keys.store, 'token', 'lost_below')
  local words = {}
  if numbers.above(said[2] or '0', said[1] or '0') then words[#words + 1] = 'counter low' end
  if not store.anybody_waits and redis.call('EXISTS', keys.turns) == 1 then words[#words + 1] = 'queue forgotten' end
  if not store.has_caps and redis.call('EXISTS', keys.caps) == 1 then words[#words + 1] = 'caps forgotten' end
  return {words}
end)
