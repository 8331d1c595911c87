-- Say of the store whether anybody waits and whether there is a cap. Safe to repeat. Returns {'ok'}
command.change('doctor/repair_store', {
  '...ignored',
}, function()
  caps.note()
  if redis.call('EXISTS', keys.turns) == 1 then redis.call('HSET', keys.store, 'waiting', '1') end
  return {'ok'}
end)
