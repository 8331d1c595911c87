-- Bring back, after the store has lost it, the run-time value of HUB_SWEEPER_EXPIRE or that it was cleared, unless it was switched
-- again since. Safe to repeat. Returns {'restored'} | {'kept'} (the store has a value that was switched as late or later)
command.change_unclocked('store/restore_expire', {
  'expire',  -- as in store/switch_expire
  'by',      -- the caller who switched it
  'at',      -- when it was switched, '' for never
}, function(a)
  if a.at <= (redis.call('HGET', keys.store, 'expire_at') or '') then return {'kept'} end
  redis.call('HSET', keys.store, 'expire', a.expire, 'expire_by', a.by, 'expire_at', a.at)
  if a.expire == '' then redis.call('HDEL', keys.store, 'expire') end
  return {'restored'}
end)
