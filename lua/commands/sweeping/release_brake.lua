-- Release the brake on all hubs: all that it holds back may be removed, until not too many are stale any more or for_ms is over. Safe
-- to repeat: the first release stays. Returns {'off'} (it is not engaged) | {'released', by, at}
command.finish('sweeping/release_brake', {
  'by',              -- the caller who releases it
  'for_ms: number',  -- how long the release lasts at most
  'of',              -- 'nodes' | 'workers'
}, function(a)
  local brake = a.of == 'workers' and keys.worker_brake or keys.brake
  local was = redis.call('HMGET', brake, 'state', 'released_by', 'released_at')
  if not was[1] then return {'off'} end
  if was[1] == 'released' then return {'released', was[2], was[3]} end
  local at = times.text(store.now_ms)
  redis.call('HSET', brake, 'state', 'released', 'released_by', a.by, 'released_at', at, 'released_until_ms',
    store.clock_ms + a.for_ms, 'held', 0)
  history.note('brake.released', 'of', a.of, 'by', a.by)
  return {'released', a.by, at}
end)
