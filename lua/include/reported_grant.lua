-- @include lost_grant
-- @include above
-- Whether a grant that is reported as lent was given back while the store did not know of it, or has been brought back by
-- a hub since: what the store says of it now is the newer word.
local function returned_meanwhile(slot, token)
  local ended = redis.call('GET', key_ended(slot))
  return ended and not above(token, ended)
end
