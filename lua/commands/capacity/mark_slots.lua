-- Ask the nodes of these slots to replace them. A held slot is in no list, so the end of a pool's maintenance does not wait for it.
-- Safe to repeat. Returns {'ok', slots that were marked with a request to recycle them}
command.change('capacity/mark_slots', {
  '...slots',
}, function(_, argv)
  local marked = 0
  for i = 1, #argv do
    local part, pool, place = unpack(redis.call('HMGET', keys.slot(argv[i]), 'part', 'pool', 'place'))
    if part then
      slots.mark_recycle(argv[i], part, 120)
      orders.changed(part)
      marked = marked + 1
    end
    if place == 'held' then redis.call('SREM', keys.replacing(pool), argv[i]) end
  end
  return {'ok', marked}
end)
