-- Delete the recycle markers of slots that their node says it has replaced or reset. Markers of slots of other nodes stay. Safe to
-- repeat. Returns {'ok'}
command.change('nodes/recycled', {
  'part',  -- key part of the id of the node
  '...slots',
}, function(a, argv)
  for i = 2, #argv do
    local slot = argv[i]
    local record = redis.call('HMGET', keys.slot(slot), 'pool', 'part')
    if record[2] == a.part then
      redis.call('DEL', keys.recycle(slot))
      redis.call('SREM', keys.replacing(record[1]), slot)
    end
    redis.call('HDEL', keys.orders(a.part), 'recycle:' .. slot)
  end
  return {'ok'}
end)
