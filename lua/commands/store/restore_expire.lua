-- Bring back the run-time value of HUB_SWEEPER_EXPIRE, or that it was cleared, after a loss of the store has taken it,
-- unless it was switched again since. Safe to repeat. Returns {'restored' | 'kept'}
command.change_unclocked('store/restore_expire', {
  'expire',  -- as for switch_expire
  'by',
  'at',      -- '' when it was never switched
}, function(a)
  if a.at <= (redis.call('HGET', keys.store, 'expire_at') or '') then return {'kept'} end
  redis.call('HSET', keys.store, 'expire', a.expire, 'expire_by', a.by, 'expire_at', a.at)
  if a.expire == '' then redis.call('HDEL', keys.store, 'expire') end
  return {'restored'}
end)
