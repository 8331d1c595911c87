-- Whether the store may have lost a grant that somebody remembers: it has no record of the slot, or the grant is of the
-- time that a restart or a wipe has lost - all time before, for a wipe - and the slot has only been offered again since.
-- Tokens have 19 digits, so they compare as text. Otherwise the store knows better: that grant has ended.
local function lost_grant(record, token)
  if record.place == 'lent' then return false end
  if not record.item then return true end
  local lost = redis.call('HMGET', key_store, 'lost_above', 'lost_below')
  return #token == 19 and token > (lost[1] or '') and token <= (lost[2] or '')
end
