-- Offer slots again whose grants ended early, when the grace of their last holders is over. Safe to repeat.
-- Returns {'ok', slots whose grace is over}
local limit = tonumber(ARGV[1])
-- @include store
-- @include place_free
-- @include serve
local over = redis.call('ZRANGE', key_revoked, '-inf', clock_ms, 'BYSCORE', 'LIMIT', 0, limit)
for _, slot in ipairs(over) do
  forget_revoked(slot)
  offer_again(slot)
end
serve_opened()
return {'ok', #over}
