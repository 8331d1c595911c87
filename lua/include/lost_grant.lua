-- @include above
-- Whether a grant is of the time that a restart or a wipe of the store has lost: all time before, for a wipe. Of any other
-- grant the store knows better: it has ended.
local function lost_grant(token)
  local lost = redis.call('HMGET', key_store, 'lost_above', 'lost_below')
  return lost[2] and token ~= '' and not string.find(token, '%D') and above(token, lost[1]) and not above(token, lost[2])
end
