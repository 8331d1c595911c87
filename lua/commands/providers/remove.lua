-- Delete a provider, for its owner or a superuser. Returns {'ok'} | {'provider'} (unknown) | {'forbidden'} (another user's)
command.finish('providers/remove', {
  'id',         -- id of the provider
  'user',       -- the calling user
  'superuser',  -- '1' | '0'
  'request',    -- request id: a repeat of the call that deleted it is answered as that call was
  'told',       -- '1': a hub repeats the call to a store that may have lost it
}, function(a)
  local full = redis.call('GET', keys.provider_name(a.id))
  if a.told == '1' then redis.call('SET', keys.claim(a.id), '', 'EX', keys.seconds.claim) end  -- its registration may be repeated later
  if not full then return {redis.call('EXISTS', keys.claim(a.request)) == 1 and 'ok' or 'provider'} end
  if a.superuser ~= '1' and redis.call('HGET', keys.provider(full), 'user') ~= a.user then return {'forbidden'} end
  providers.drop(full)
  for _, done in ipairs({a.request, a.id}) do redis.call('SET', keys.claim(done), '', 'EX', keys.seconds.claim) end
  return {'ok'}
end)
