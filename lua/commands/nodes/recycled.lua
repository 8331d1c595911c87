-- A node says that it has dealt with recycle markers: it replaced or reset these slots. Others' are left alone. Safe to repeat.
-- Returns {'ok'}
command.change('nodes/recycled', {
  'part',
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
