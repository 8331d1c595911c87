-- Make a worker of a user's. Safe to repeat. Returns {'ok', last beat in microseconds}
local worker = ARGV[1]
local user   = ARGV[2]
-- @include worker
return {'ok', redis.call('HGET', key_worker(worker), 'beat') or create_worker(worker, user)}
