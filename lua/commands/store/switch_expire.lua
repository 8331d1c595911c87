-- Set or clear the run-time value of HUB_SWEEPER_EXPIRE, for all hubs. The caller and the time are kept also when it is cleared: a hub
-- that brings the value back after a loss sees by them which value is the latest. Returns {'ok', expire or '', by, at}
command.finish('store/switch_expire', {
  'expire',  -- 'true' | 'false' | '' for the setting of each hub
  'by',      -- the caller who switches it
}, function(a)
  local last_ms = times.parse(redis.call('HGET', keys.store, 'expire_at') or '') or 0
  local at = times.text(math.max(store.now_ms, last_ms + 1))  -- later than the one before, also in the same millisecond
  if (redis.call('HGET', keys.store, 'expire') or '') ~= a.expire then
    history.note('sweep.switched', 'expire', a.expire, 'by', a.by, 'why', a.expire == '' and 'cleared' or '')
  end
  redis.call('HSET', keys.store, 'expire', a.expire, 'expire_by', a.by, 'expire_at', at)
  if a.expire == '' then redis.call('HDEL', keys.store, 'expire') end
  return {'ok', a.expire, a.by, at}
end)
