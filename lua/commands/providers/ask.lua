-- Ask a provider for a result, unless the result is there or was asked for since a client last joined the provider's room: an earlier
-- question may have reached no worker.
-- Returns {'ready'} (the result is there) | {'asked'} | {'waiting'} (it was asked before) | {'quota', ...} (as `quotas.take` returns
--   it)
command.add('providers/ask', {
  'full',     -- full name of the provider
  'id',       -- id of the provider
  'user',     -- the user who reads, '' without a name
  'hash',     -- digest of the parameters
  'params',   -- the text of the parameters
  'ttl_ms',   -- for how long the provider is not asked again
  'want_ms',  -- for how long an answer is taken
}, function(a)
  if redis.call('EXISTS', keys.result(a.id .. ':' .. a.hash)) == 1 then return {'ready'} end
  local asked = redis.call('GET', keys.inflight(a.id .. ':' .. a.hash))
  local joined = redis.call('HGET', keys.provider(a.full), 'joined')
  if asked and tonumber(asked) >= tonumber(joined or '0') then return {'waiting'} end
  local refusal = quotas.note('reads', a.user, 3600)
  if refusal then return refusal end
  redis.call('SET', keys.inflight(a.id .. ':' .. a.hash), numbers.digits(store.now_us), 'PX', a.ttl_ms)
  redis.call('SET', keys.wanted(a.id .. ':' .. a.hash), '', 'PX', a.want_ms)
  events.emit('provider_request', 'providers:' .. a.full, '{"request_id":"' .. a.hash .. '","provider_name":' .. cjson.encode(a.full)
    .. ',"params":' .. cjson.encode(a.params) .. '}')
  return {'asked'}
end)
