-- Read which of these leases are over; changes nothing.
-- Returns a word per lease: 'ok' (it is live) | 'not lent' | 'stale token' (there is another lease) | 'lapsed' | 'settling' (the store
--   was lost, and the lease or its end may not have been reported yet)
command.read('capacity/still_held', {
  '...leases',  -- per lease: slot, token
}, function(_, argv)
  local words = {}
  for i = 1, #argv, 2 do
    local slot, token = argv[i], argv[i + 1]
    local held = redis.call('HGET', keys.session(slot), 'leaseToken')
    local word = held == token and 'ok' or held and 'stale token' or 'not lent'
    if store.settle_left_ms > 0 or (word ~= 'ok' and reports.is_missing(slot, token, held)) then
      word = 'settling'
    elseif word == 'ok' and tonumber(redis.call('ZSCORE', keys.deadlines, slot) or '0') <= store.clock_ms then
      word = 'lapsed'
    end
    words[#words + 1] = word
  end
  return words
end)
