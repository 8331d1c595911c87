-- @include history
-- A pool under maintenance lends nothing. It ends, here, when nothing is lent and, after 10 s, every slot of the start
-- has been replaced by as many; or after 2 min. The flag itself lives 30 min, which tells how long it has been on.
local reopened = {}  -- pools whose maintenance this script has ended: serve_opened serves from them
local function under_maintenance(pool)
  local left_ms = redis.call('PTTL', key_maintenance(pool))
  if left_ms == -2 then return false end
  local on_ms = 1800000 - left_ms
  if redis.call('EXISTS', key_inuse(pool)) == 1 or (left_ms > 0 and on_ms < 10000) then return true end
  local target = tonumber(redis.call('GET', key_maintenance_target(pool)) or '0')
  local replaced = redis.call('LLEN', key_available(pool)) >= target
    and redis.call('SINTERCARD', 2, key_pool_slots(pool), key_replacing(pool), 'LIMIT', 1) == 0
  if left_ms > 0 and on_ms < 120000 and not replaced then return true end
  redis.call('DEL', key_maintenance(pool), key_maintenance_target(pool), key_maintenance_since(pool),
    key_maintenance_free(pool), key_maintenance_lent(pool), key_replacing(pool))
  note('pool.maintenance', 'pool', pool, 'why', 'over')
  reopened[#reopened + 1] = pool
  return false
end
