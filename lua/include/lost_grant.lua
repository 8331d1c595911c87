-- Whether a grant is of the time that a restart or a wipe of the store has lost: all time before, for a wipe. Tokens have
-- 19 digits, so they compare as text. Of any other grant the store knows better: it has ended.
local function lost_grant(token)
  local lost = redis.call('HMGET', key_store, 'lost_above', 'lost_below')
  return #token == 19 and token > (lost[1] or '') and token <= (lost[2] or '')
end
