-- Move the hub clock: a hub can hear. Also elects the hub that sweeps: the last one stays it while it ticks.
-- Returns {'ok', generation, clock_ms, 1 | 0 (this hub sweeps), ms until settled, run-time expire switch or '', by, at,
--   the time of Redis in ms}
local hub_id    = ARGV[1]
local leader_ms = tonumber(ARGV[2])  -- how long a silent leader keeps its office
-- @include store
-- @include reporting
local office = redis.call('HMGET', key_store, 'leader', 'leader_until_ms', 'expire', 'expire_by', 'expire_at')
local leads = 0
if office[1] == hub_id or now_ms >= tonumber(office[2] or '0') or tonumber(office[2]) > now_ms + leader_ms then
  leads = 1
  redis.call('HSET', key_store, 'leader', hub_id, 'leader_until_ms', now_ms + leader_ms)
end
redis.call('HSET', key_store, 'clock_ms', clock_ms, 'tick_ms', now_ms)
if not hearing then redis.call('UNLINK', key_ended, key_renewed) end
redis.call('ZADD', key_hubs, clock_ms, hub_id)
return {'ok', opened[1], clock_ms, leads, math.max(0, settle_left_ms), office[3] or '',
  office[4] or '', office[5] or '', now_ms}
