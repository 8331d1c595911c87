-- Take back a grant whose caller cannot have received it: the slot goes to the tail of its pool, without a marker.
-- A request that has not been carried out yet never will be. Safe to repeat.
-- Returns {'undone', slot} | {'nothing'}
local request = ARGV[1]
-- @include store
-- @include release
local before = redis.call('GET', key_request(request))
redis.call('SET', key_request(request), 'undone', 'EX', 60)
if not before or before == 'undone' then return {'nothing'} end
local slot, token = string.match(before, '^.-|(.*)|(%d+)$')
if not slot or redis.call('HGET', key_session(slot), 'leaseToken') ~= token then return {'nothing'} end
release(slot, read_slot(slot), 0)
return {'undone', slot}
