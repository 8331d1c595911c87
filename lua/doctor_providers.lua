-- Checks and repairs of providers: each must have a worker that exists, and stand in the lists of its room and its worker.
local doctor_providers = {}
local place_in = doctor_indexes.place_in

-- Check a provider, by its full name.
function doctor_providers.check(say, _, full)
  local id, at, worker = unpack(redis.call('HMGET', keys.provider(full), 'id', 'at', 'worker'))
  if not (id and at and worker) then return say('record broken', redis.call('EXISTS', keys.provider(full)) == 1) end
  say('of nobody', redis.call('EXISTS', keys.worker(worker)) == 0)
  say('unlisted', place_in(keys.room_providers(names.room_of(full)), full) ~= tonumber(at))
  say('not of its worker', redis.call('SISMEMBER', keys.worker_providers(worker), full) == 0)
  say('unnamed', redis.call('GET', keys.provider_name(id)) ~= full)
end

-- List a provider in its room and at its worker, or drop one whose worker is gone or whose record is incomplete.
function doctor_providers.repair(full)
  local id, at, worker = unpack(redis.call('HMGET', keys.provider(full), 'id', 'at', 'worker'))
  if id and at and worker and redis.call('EXISTS', keys.worker(worker)) == 1 then
    redis.call('ZADD', keys.room_providers(names.room_of(full)), at, full)
    redis.call('SADD', keys.worker_providers(worker), full)
    redis.call('SET', keys.provider_name(id), full)
  elseif id and worker then
    providers.drop(full)
  else
    providers.uncount(full, unpack(redis.call('HMGET', keys.provider(full), 'user', 'bytes')))
    redis.call('DEL', keys.provider(full))
    redis.call('ZREM', keys.room_providers(names.room_of(full)), full)
  end
end

return doctor_providers
