-- Providers: what is deleted and counted when a provider goes.
local providers = {}

-- Count a provider and its schema no longer for its user, nor for its room unless `in_room` is 0.
function providers.uncount(full, user, bytes, in_room)
  if not (user and tonumber(bytes or '')) then return end
  quotas.release('schemas', user, names.room_of(full), tonumber(bytes), in_room)
  quotas.release('providers', user, names.room_of(full), 1, in_room)
end

-- Delete a provider. Its results stay until they lapse; they are stored under its id, so that no reader finds them.
function providers.drop(full)
  local p = lenient.fields(keys.provider(full), 'id', 'worker', 'user', 'bytes')
  if not p[1] then return end
  providers.uncount(full, p[3], p[4])
  redis.call('DEL', keys.provider(full), keys.provider_name(p[1]))
  redis.call('ZREM', keys.room_providers(names.room_of(full)), full)
  redis.call('SREM', keys.worker_providers(p[2]), full)
  events.providers(names.room_of(full))
end

return providers
