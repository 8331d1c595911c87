-- @include reporting
-- @include lost_grant
-- @include above
-- Whether a grant with this token may be of what the store has lost and its node has yet to report. `held` is the token
-- of the grant that the store knows, if any.
local function missing_grant(slot, token, held)
  if not reporting or token == '' or not lost_grant(token) or (held and not above(token, held)) then return false end
  return redis.call('HGET', key_slot(slot), 'reported') ~= opened[1]
end
