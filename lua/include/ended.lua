-- @include reporting
-- @include above
-- A grant has ended. While nodes and hubs may still say that it is lent, because they do not know, that is remembered;
-- also of a grant that was made since the loss, for there may be another one before everybody has spoken.
local function note_ended(slot, token)
  if not (hearing and token) then return end
  local ended = redis.call('HGET', key_ended, slot)
  if not ended or above(token, ended) then redis.call('HSET', key_ended, slot, token) end
end
