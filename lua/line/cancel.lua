-- A ticket is given up by whoever knows it; the call that attends it hears of it. Safe to repeat.
-- Returns {'cancelled'} | {'granted', slot} (give it back instead) | {'unknown'}
local ticket = ARGV[1]
-- @include store
-- @include ticket
local t = read_ticket(ticket)
local slot = string.match(redis.call('GET', key_request(ticket)) or '', '^.-|(.*)|%d+|.-$')
if slot then return {'granted', slot} end
if not t.label then return {'unknown'} end
step_out(t)
redis.call('DEL', key_ticket(ticket))
redis.call('SET', key_request(t.attempt), 'undone', 'EX', 60)
redis.call('PUBLISH', key_granted(t.hub), ticket)
return {'cancelled'}
