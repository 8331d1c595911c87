-- Begin to move the store to another server, or go on with that: from now on no hub opens it, so that every call is refused and
-- the hub clock stands still. Hubs that know nothing of moves see a format of the future. Safe to repeat.
-- Returns {'moving', the id of the move, where to} | {'moved', the id, where to: it is over, and the store is there}
--   | {'none': there is no store}
command.open('store/move', {
  'by',  -- this attempt, which takes over from those before; the id of the first is that of the move
  'to',  -- the URL of the other server, as hubs are to call it
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
