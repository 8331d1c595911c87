-- Take back a grant whose caller cannot have received it: the slot goes to the tail of its pool, without a marker.
-- Only the attempt that was answered last may: a caller who has repeated the request holds the grant. An attempt that
-- has not been carried out yet never will be. Safe to repeat.
-- Returns {'undone', slot} | {'nothing'}
local request = ARGV[1]
local attempt = ARGV[2]
-- @include store
-- @include release
local before = redis.call('GET', key_request(request))
local slot, token, last = string.match(before or '', '^.-|(.*)|(%d+)|(.-)$')
if request ~= attempt or not slot then redis.call('SET', key_request(attempt), 'undone', 'EX', 60) end
if last ~= attempt or redis.call('HGET', key_session(slot), 'leaseToken') ~= token then return {'nothing'} end
redis.call('DEL', key_request(request))
release(slot, read_slot(slot), 0)
return {'undone', slot}
