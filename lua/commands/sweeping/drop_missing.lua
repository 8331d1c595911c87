-- Forget slots whose item another program has taken out of its list. A lent slot with a session is left to its lease. A registered node
-- is told to publish again: it may still have the slots. Returns {'ok', slots dropped}
command.finish('sweeping/drop_missing', {
  '...slots',
}, function(_, argv)
  local dropped = 0
  for i = 1, #argv do
    local slot = argv[i]
    local record = redis.call('HMGET', keys.slot(slot), 'item', 'pool', 'place', 'part', 'node')
    local list = record[3] == 'free' and keys.available(record[2] or '') or keys.inuse(record[2] or '')
    if record[1] and record[3] ~= 'held' and not redis.call('LPOS', list, record[1])
      and (record[3] == 'free' or redis.call('EXISTS', keys.session(slot)) == 0) then
      if record[3] == 'lent' then
        served_caps.uncount(slot)
        team_shares.uncount(slot)
      end
      slots.drop(slot, record[2], record[4])
      history.slot('slot.withdrawn', {slot = slot, node = record[5], pool = record[2]}, 'missing')
      if redis.call('EXISTS', keys.node(record[4])) == 1 then redis.call('HSET', keys.orders(record[4]), 'republish', '1') end
      dropped = dropped + 1
    end
  end
  serving.opened()
  return {'ok', dropped}
end)
