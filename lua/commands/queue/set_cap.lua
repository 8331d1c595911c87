-- Set the cap of a label, at run time and for all hubs, and serve waiters that it lets in. Safe to repeat. Returns {'ok', the cap in
-- force, 0 for none, leases that count (0 for the default)}
command.change('queue/set_cap', {
  'label',  -- '' for the default, of all labels without a cap of their own
  'cap',    -- 0: no limit, '': the cap from the environment again
  'served', -- '1': it counts the leases that this pool and those below it serve; else those that were asked for under the label
}, function(a)
  local field = a.label == '' and 'set' or (a.served == '1' and 'served:' or 'set:') .. a.label
  if a.served == '1' and a.cap == '0' then a.cap = '' end
  if (redis.call('HGET', keys.caps, field) or '') ~= a.cap then
    local facts = {'label', a.label == '' and '*' or a.label, 'cap', a.cap, 'why', a.cap == '' and 'cleared' or ''}
    if a.served == '1' then facts[7], facts[8] = 'served', '1' end
    history.note('cap.set', unpack(facts))
  end
  if a.cap == '' then redis.call('HDEL', keys.caps, field) else redis.call('HSET', keys.caps, field, a.cap) end
  caps.note()
  if a.served == '1' then
    if a.cap ~= '' then served_caps.count_anew(a.label) else redis.call('DEL', keys.served(a.label)) end
    serving_below.serve(a.label)
    serving.opened()
    return {'ok', tonumber(a.cap) or 0, redis.call('SCARD', keys.served(a.label))}
  end
  if a.label ~= '' then
    serving.label(a.label, true)
    serving.opened()
    return {'ok', caps.of(a.label), redis.call('ZCARD', keys.in_flight(a.label))}
  end
  local set = redis.call('HMGET', keys.caps, 'set', 'env')
  return {'ok', tonumber(set[1] or set[2] or '0'), 0}
end)
