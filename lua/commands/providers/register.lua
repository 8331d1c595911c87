-- Register a provider for a worker, or take it over: schema, content type, worker and owner become those of the caller; the id, the
-- place in the lists and the cached results stay. A refusal changes nothing. Safe to repeat; a hub that repeats it after a loss changes
-- nothing that came later.
-- Returns {'created' | 'replaced', id, time made, worker, time of this registration} | {'worker'} (unknown, or not the caller's) |
--   {'forbidden'} (the provider is another user's) | {'quota', ...} (as `quotas.take` returns it) | {'later'} (to a repeat: it was
--   registered again or removed since)
command.add('providers/register', {
  'full',           -- full name of the provider
  'id',             -- the id of the provider if it is new
  'schema',
  'content_type',
  'worker',
  'user',           -- the calling user
  'superuser',      -- '1' | '0'
  'made_for',       -- the worker is 'new' or 'known'; 'told': a hub repeats the call to a store that may have lost it
  'since: number',  -- time of the registration that is repeated
}, function(a)
  local owner = redis.call('HGET', keys.worker(a.worker), 'user')
  if owner ~= a.user and not (a.made_for == 'new' and not owner) then return {'worker'} end
  local p = redis.call('HMGET', keys.provider(a.full), 'id', 'at', 'worker', 'user', 'since', 'bytes')
  if a.made_for == 'told' then
    local later = p[1] and (p[1] ~= a.id or tonumber(p[5] or '0') >= a.since)
    if later or redis.call('EXISTS', keys.claim(a.id)) == 1 then return {'later'} end
  end
  if p[1] and p[4] ~= a.user and a.superuser ~= '1' then return {'forbidden'} end
  local room, bytes, is_free = names.room_of(a.full), #a.schema + quotas.EACH, a.made_for == 'told'
  local counted = p[4] and tonumber(p[6] or '')  -- bytes that count for the owner so far
  local same, other = p[4] == a.user and counted, p[4] ~= a.user and counted or nil
  local refusal = quotas.take('providers', a.user, room, same and 0 or 1, {is_free = is_free, before = other and 1})
  if refusal then return refusal end
  refusal = quotas.take('schemas', a.user, room, bytes - (same or 0), {is_free = is_free, before = other})
  if refusal then
    quotas.release('providers', a.user, room, same and 0 or 1, other and 0)
    return refusal
  end
  if other then providers.uncount(a.full, p[4], other, 0) end

  local word = p[1] and p[1] ~= a.id and 'replaced' or 'created'
  local since = numbers.digits(store.next_us())
  local at = p[2] or since
  if not owner then workers.create(a.worker, a.user) end
  if p[3] then redis.call('SREM', keys.worker_providers(p[3]), a.full) end
  redis.call('SADD', keys.worker_providers(a.worker), a.full)
  redis.call('HSET', keys.provider(a.full), 'id', p[1] or a.id, 'at', at, 'schema', a.schema, 'type', a.content_type, 'worker', a.worker,
    'user', a.user, 'since', since, 'bytes', numbers.whole(bytes))
  redis.call('SET', keys.provider_name(p[1] or a.id), a.full)
  redis.call('ZADD', keys.room_providers(names.room_of(a.full)), at, a.full)
  events.providers(names.room_of(a.full))
  return {word, p[1] or a.id, at, a.worker, since}
end)
