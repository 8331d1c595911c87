-- Which of these grants are over? One that the store may only not have been told of again is not. Changes nothing.
-- Returns a word per grant: 'ok' | 'not lent' | 'stale token' | 'lapsed'
-- @rest grants                      per grant: slot, token
-- @include store
-- @include missing_grant
local words = {}
for i = 1, #ARGV, 2 do
  local slot, token = ARGV[i], ARGV[i + 1]
  local held = redis.call('HGET', key_session(slot), 'leaseToken')
  local word = held == token and 'ok' or held and 'stale token' or 'not lent'
  if word == 'ok' then
    local deadline = tonumber(redis.call('ZSCORE', key_deadlines, slot) or '0')
    if deadline <= clock_ms and settle_left_ms <= 0 then word = 'lapsed' end
  elseif settle_left_ms > 0 or missing_grant(slot, token, held) then
    word = 'ok'
  end
  words[#words + 1] = word
end
return words
