-- Put a pool under maintenance, to have every slot of it replaced. The markers follow in bites (mark_slots).
-- Returns {'ok', free, lent}
local pool = ARGV[1]
-- @include store
-- @include time_text
-- @include history
local free, lent = redis.call('LLEN', key_available(pool)), redis.call('LLEN', key_inuse(pool))
if redis.call('EXISTS', key_maintenance(pool)) == 0 then note('pool.maintenance', 'pool', pool, 'why', '') end
redis.call('SET', key_maintenance(pool), '1', 'EX', 1800)
redis.call('SET', key_maintenance_target(pool), free + lent, 'EX', 1800)
redis.call('SET', key_maintenance_since(pool), time_text(now_ms), 'EX', 1800)
redis.call('SET', key_maintenance_free(pool), free, 'EX', 1800)
redis.call('SET', key_maintenance_lent(pool), lent, 'EX', 1800)
redis.call('SUNIONSTORE', key_replacing(pool), key_pool_slots(pool))
redis.call('EXPIRE', key_replacing(pool), 1800)
return {'ok', free, lent}
