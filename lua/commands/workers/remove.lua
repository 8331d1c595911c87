-- Remove a worker, for its user, a superuser, or the sweeper; for the sweeper it is checked again that the worker is silent or has hung
-- up. Safe to repeat.
-- Returns {'ok', number of its tasks left for workers/bury} | {'worker'} (unknown) | {'forbidden'} (another user's) | {'alive'}
--   (neither silent nor hung up) | {'superseded'} (another process is the worker)
command.finish('workers/remove', {
  'worker',
  'user',               -- the calling user
  'superuser',          -- '1' | '0'
  'why',                -- 'deleted' | 'silent' | 'hung up'
  'silent_ms: number',  -- it must have been silent for longer, on the hub clock; -1 for any time
  'limit: number',      -- most tasks that are failed in this step
  'request',            -- request id: a repeat of the call that removed it is answered as that call was
  'incarnation',        -- the process that leaves, '' for any
}, function(a)
  local owner = lenient.fields(keys.worker(a.worker), 'user')[1]
  if not owner and redis.call('EXISTS', keys.claim(a.request)) == 1 then return {'ok', redis.call('SCARD', keys.worker_tasks(a.worker))} end
  if not owner then  -- there is nothing to check
    redis.call('ZREM', keys.hung_up, a.worker)
    redis.call('ZREM', keys.worker_beats, a.worker)
    return {'worker'}
  end
  if incarnations.is_superseded(a.worker, a.incarnation) then return {'superseded'} end
  if a.superuser ~= '1' and owner ~= a.user then return {'forbidden'} end
  local beat_ms = tonumber(redis.call('ZSCORE', keys.worker_beats, a.worker) or '0')
  if a.silent_ms >= 0 and store.clock_ms - beat_ms <= a.silent_ms then return {'alive'} end
  if a.why == 'hung up' and tonumber(redis.call('ZSCORE', keys.hung_up, a.worker) or 'inf') > store.clock_ms then return {'alive'} end
  redis.call('SET', keys.claim(a.request), '', 'EX', keys.seconds.claim)
  return {'ok', dead_workers.remove(a.worker, a.why, a.limit)}
end)
