-- Providers.
local providers = {}

-- Delete a provider. Its results are kept by its id, so nobody reads them any more.
function providers.drop(full)
  local p = lenient.fields(keys.provider(full), 'id', 'worker')
  if not p[1] then return end
  redis.call('DEL', keys.provider(full), keys.provider_name(p[1]))
  redis.call('ZREM', keys.room_providers(names.room_of(full)), full)
  redis.call('SREM', keys.worker_providers(p[2]), full)
  events.providers(names.room_of(full))
end

return providers
