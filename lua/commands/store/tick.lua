-- Move the hub clock on, for a hub that can hear, and elect the hub that sweeps: the last leader stays it while it ticks.
-- Returns {'ok', generation, clock_ms, 1 | 0 (this hub sweeps), ms until the store has settled, run-time expire switch or '', who
--   switched it, when, Redis time in ms, the highest token, 1 | 0 (there are hooks), bytes that Redis has in use, memory limit of Redis
--   or 0 for none}
command.finish('store/tick', {
  'hub_id',             -- the calling hub
  'leader_ms: number',  -- how long a silent leader stays the leader
  'limits',             -- limits of what may take memory of Redis, in the form that `lua/allowances.lua` reads
}, function(a)
  local leader = redis.call('HMGET', keys.store, 'leader', 'leader_until_ms', 'expire', 'expire_by', 'expire_at', 'hooks')
  local leads = 0
  if leader[1] == a.hub_id or store.now_ms >= tonumber(leader[2] or '0') or tonumber(leader[2]) > store.now_ms + a.leader_ms then
    leads = 1
    redis.call('HSET', keys.store, 'leader', a.hub_id, 'leader_until_ms', store.now_ms + a.leader_ms)
  end
  redis.call('HSET', keys.store, 'clock_ms', store.clock_ms, 'tick_ms', store.now_ms, 'limits', a.limits)
  if store.resumes then redis.call('HSET', keys.store, 'resumed_ms', store.clock_ms + 1000) end
  if not store.hearing then redis.call('UNLINK', keys.ended, keys.renewed) end
  if redis.call('ZADD', keys.hubs, store.clock_ms, a.hub_id) == 1 then redis.call('HSET', keys.store, 'joined_ms', store.now_ms) end
  return {'ok', store.generation, store.clock_ms, leads, math.max(0, store.settle_left_ms), leader[3] or '',
    leader[4] or '', leader[5] or '', store.now_ms, store.token, leader[6] and 1 or 0, reserve.look()}
end)
