-- A hub that stops gives up sweeping, so that another takes over with its next tick. Returns {'ok'}
local hub_id = ARGV[1]
if redis.call('HGET', key_store, 'leader') == hub_id then redis.call('HDEL', key_store, 'leader', 'leader_until_ms') end
return {'ok'}
