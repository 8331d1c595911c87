-- Let a ticket that waits be attended by its hub again for as long as it said, and drop one that nobody would ever drop.
-- Safe to repeat. Returns {'ok'}
local ticket = ARGV[1]
-- @include store
-- @include ticket
local t = read_ticket(ticket)
if t.label and redis.call('ZSCORE', key_line(t.label), ticket) then
  local until_ms = tonumber(redis.call('HGET', key_ticket(ticket), 'until_ms') or clock_ms)
  redis.call('SADD', key_waiters(t.hub), ticket)
  redis.call('ZADD', key_patience, 'NX', until_ms + 2000, ticket)
elseif t.label and not redis.call('ZSCORE', key_patience, ticket) and redis.call('PTTL', key_ticket(ticket)) == -1 then
  redis.call('DEL', key_ticket(ticket))
end
return {'ok'}
