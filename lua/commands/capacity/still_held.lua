-- Which of these leases are over? Changes nothing.
-- Returns a word per lease: 'ok' | 'not lent' | 'stale token' | 'lapsed'
--   | 'settling' (the store was lost, and may only not have been told of it again)
command.read('capacity/still_held', {
  '...leases',  -- per lease: slot, token
}, function(_, argv)
  local words = {}
  for i = 1, #argv, 2 do
    local slot, token = argv[i], argv[i + 1]
    local held = redis.call('HGET', keys.session(slot), 'leaseToken')
    local word = held == token and 'ok' or held and 'stale token' or 'not lent'
    if word == 'ok' then
      local deadline = tonumber(redis.call('ZSCORE', keys.deadlines, slot) or '0')
      if deadline <= store.clock_ms and store.settle_left_ms <= 0 then word = 'lapsed' end
    elseif store.settle_left_ms > 0 or reports.is_missing(slot, token, held) then
      word = 'settling'
    end
    words[#words + 1] = word
  end
  return words
end)
