-- @include emit
-- Delete a provider. Its results are kept by its id, so nobody reads them any more.
local function drop_provider(full)
  local p = redis.call('HMGET', key_provider(full), 'id', 'worker')
  if not p[1] then return end
  redis.call('DEL', key_provider(full), key_provider_name(p[1]))
  redis.call('ZREM', key_room_providers(room_of(full)), full)
  redis.call('SREM', key_worker_providers(p[2]), full)
  emit_providers(room_of(full))
end
