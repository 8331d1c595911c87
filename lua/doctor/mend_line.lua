-- Put a label that is waited for where freed slots look for it, and serve it; drop what stands in line without a ticket.
-- Safe to repeat. Returns {'ok'}
local label = ARGV[1]
-- @include store
-- @include serve
for _, ticket in ipairs(redis.call('ZRANGE', key_line(label), 0, 99)) do
  if redis.call('EXISTS', key_ticket(ticket)) == 0 then redis.call('ZREM', key_line(label), ticket) end
end
if redis.call('EXISTS', key_line(label)) == 1 and not redis.call('ZSCORE', key_turns, label) then take_turn(label) end
serve_label(label)
return {'ok'}
