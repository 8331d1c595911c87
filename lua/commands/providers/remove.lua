-- Delete a provider, for its owner or a superuser. Returns {'ok'} | {'provider'} (unknown) | {'forbidden'}
command.finish('providers/remove', {
  'id',
  'user',
  'superuser',  -- '1' | '0'
  'request',    -- a repeat of the one that deleted it is answered as it was
}, function(a)
  local full = redis.call('GET', keys.provider_name(a.id))
  if not full then return {redis.call('EXISTS', keys.claim(a.request)) == 1 and 'ok' or 'provider'} end
  if a.superuser ~= '1' and redis.call('HGET', keys.provider(full), 'user') ~= a.user then return {'forbidden'} end
  providers.drop(full)
  redis.call('SET', keys.claim(a.request), '', 'EX', keys.seconds.claim)
  return {'ok'}
end)
