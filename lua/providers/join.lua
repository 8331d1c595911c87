-- A client has joined the room in which a provider is asked: from now on it is asked again. Safe to repeat.
-- Returns {'ok'}
local full = ARGV[1]
-- @include instant
if redis.call('EXISTS', key_provider(full)) == 1 then redis.call('HSET', key_provider(full), 'joined', digits(now_us)) end
return {'ok'}
