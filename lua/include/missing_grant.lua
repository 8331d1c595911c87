-- @include reported_grant
-- Whether a grant with this token may be of what the store has lost, and its node, or the hub that made it, has yet to say
-- so. `held` is the token of the grant that the store knows, if any. Those that hubs make have 19 digits.
local function missing_grant(slot, token, held)
  if #token ~= 19 or not is_live(slot, token) or (held and not above(token, held)) then return false end
  return settle_left_ms > 0 or redis.call('HGET', key_slot(slot), 'reported') ~= opened[1]
end
