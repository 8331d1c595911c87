-- Set the cap of a label, at run time and for all hubs, and serve waiters that it lets in. Safe to repeat. Returns {'ok', the cap in
-- force, 0 for none, leases in flight (0 for the default)}
command.change('queue/set_cap', {
  'label',  -- '' for the default, of all labels without a cap of their own
  'cap',    -- 0: no limit, '': the cap from the environment again
}, function(a)
  local field = a.label == '' and 'set' or 'set:' .. a.label
  if (redis.call('HGET', keys.caps, field) or '') ~= a.cap then
    history.note('cap.set', 'label', a.label == '' and '*' or a.label, 'cap', a.cap, 'why', a.cap == '' and 'cleared' or '')
  end
  if a.cap == '' then redis.call('HDEL', keys.caps, field) else redis.call('HSET', keys.caps, field, a.cap) end
  caps.note()
  if a.label ~= '' then
    serving.label(a.label)
    serving.opened()
    return {'ok', caps.of(a.label), redis.call('ZCARD', keys.in_flight(a.label))}
  end
  local set = redis.call('HMGET', keys.caps, 'set', 'env')
  return {'ok', tonumber(set[1] or set[2] or '0'), 0}
end)
