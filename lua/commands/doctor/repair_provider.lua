-- List a provider where it belongs, or drop one that nobody answers for. Safe to repeat. Returns {'ok'}
command.change('doctor/repair_provider', {
  'full',
}, function(a)
  local id, at, worker = unpack(redis.call('HMGET', keys.provider(a.full), 'id', 'at', 'worker'))
  if id and at and worker and redis.call('EXISTS', keys.worker(worker)) == 1 then
    redis.call('ZADD', keys.room_providers(names.room_of(a.full)), at, a.full)
    redis.call('SADD', keys.worker_providers(worker), a.full)
    redis.call('SET', keys.provider_name(id), a.full)
  elseif id and worker then
    providers.drop(a.full)
  else
    providers.uncount(a.full, unpack(redis.call('HMGET', keys.provider(a.full), 'user', 'bytes')))
    redis.call('DEL', keys.provider(a.full))
    redis.call('ZREM', keys.room_providers(names.room_of(a.full)), a.full)
  end
  return {'ok'}
end)
