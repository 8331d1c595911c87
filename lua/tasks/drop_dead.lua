-- Take a task off the dead-letter list. Returns {'ok'} | {'task'} (it is not on it)
local id = ARGV[1]
-- @include store
return {redis.call('ZREM', key_dead, id) == 1 and 'ok' or 'task'}
