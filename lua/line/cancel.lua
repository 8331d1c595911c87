-- A ticket is given up by whoever knows it; the call that attends it hears of it, and whoever repeats the request within
-- a minute. Safe to repeat.
-- Returns {'cancelled'} | {'granted', slot} (give it back instead) | {'over', slot} (that grant has ended) | {'unknown'}
local ticket = ARGV[1]
-- @include store
-- @include ticket
local before = redis.call('GET', key_request(ticket))
if before == 'undone' then return {'cancelled'} end
local slot, token = string.match(before or '', '^.-|(.*)|(%d+)|.-$')
if slot then return {redis.call('HGET', key_session(slot), 'leaseToken') == token and 'granted' or 'over', slot} end
local t = read_ticket(ticket)
if not t.label then return {'unknown'} end
step_out(t)
note_ticket('ticket.left', t, 'cancelled')
redis.call('DEL', key_ticket(ticket))
redis.call('SET', key_request(ticket), 'undone', 'EX', 60)
redis.call('SET', key_request(t.attempt), 'undone', 'EX', 60)
redis.call('PUBLISH', key_granted(t.hub), ticket)
return {'cancelled'}
