-- Begin to move the store to another server, or go on with a move: from now on no hub opens the store, so that all calls are refused
-- and the hub clock stands still. A version of the hub that knows no moves finds a format that is too new for it. Safe to repeat.
-- Returns {'moving', id of the move, URL of the other server} | {'moved', id of the move, URL} (it is over: the store is there) |
--   {'none'} (there is no store here)
command.open('store/move', {
  'by',  -- id of this attempt, which takes over from earlier ones; the id of the first attempt is that of the move
  'to',  -- URL of the other server, as hubs are to call it
}, function(a)
  local was = redis.call('HMGET', keys.store, 'generation', 'format', 'moving', 'moving_to', 'moved', 'clock_ms')
  if was[5] then return {'moved', was[3], was[5]} end
  if was[3] then
    if was[4] == a.to then redis.call('HSET', keys.store, 'moving_by', a.by) end
    return {'moving', was[3], was[4]}
  end
  if not was[1] then return {'none'} end
  redis.call('HSET', keys.store, 'moving', a.by, 'moving_by', a.by, 'moving_to', a.to, 'moving_generation', was[1],
    'moving_format', was[2] or '1', 'format', '1000000')
  redis.call('HDEL', keys.store, 'generation')
  return {'moving', a.by, a.to}
end)
