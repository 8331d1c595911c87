-- End the move of the store: hubs go to the other server from now on, and nothing is ever lent from here again. Safe to repeat. Returns
-- {'moved'} | {'other'} (another attempt has taken over, or the move was undone)
command.open('store/moved', {
  'by',  -- id of the attempt that has copied everything
}, function(a)
  local was = redis.call('HMGET', keys.store, 'moving_by', 'moving_to')
  if was[1] ~= a.by then return {'other'} end
  redis.call('HSET', keys.store, 'moved', was[2])
  return {'moved'}
end)
