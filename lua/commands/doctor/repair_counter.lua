-- Move the token counter above a token that was issued and above the start of this store. Safe to repeat: it never
-- moves back. Returns {'ok', counter}
command.change('doctor/repair_counter', {
  'issued',
}, function(a)
  for _, floor in ipairs({redis.call('HGET', keys.store, 'lost_below') or '0', a.issued}) do
    local token = redis.call('HGET', keys.store, 'token') or '0'
    if numbers.above(floor, token) then redis.call('HSET', keys.store, 'token', floor) end
  end
  return {'ok', redis.call('HGET', keys.store, 'token')}
end)
