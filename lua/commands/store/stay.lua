-- Undo a move of the store that is not over: hubs go on with the store as after an outage. Safe to repeat. Returns {'stays'} |
-- {'moved', URL of the other server} (the move is over: the store is there)
command.open('store/stay', {
}, function()
  local was = redis.call('HMGET', keys.store, 'moved', 'moving_generation', 'moving_format')
  if was[1] then return {'moved', was[1]} end
  if was[2] then
    redis.call('HSET', keys.store, 'generation', was[2], 'format', was[3])
    redis.call('HDEL', keys.store, 'moving', 'moving_by', 'moving_to', 'moving_generation', 'moving_format')
  end
  return {'stays'}
end)
