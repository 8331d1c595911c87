-- Ask a provider for a result, unless it is there or has been asked for since a client joined the provider's room: what
-- was asked before that, no worker may have heard. Returns {'ready' | 'asked' | 'waiting'}
--   | {'quota', ...} (as `quotas.take` says)
command.add('providers/ask', {
  'full',
  'id',
  'user',     -- who reads, '' for one without a name
  'hash',     -- of the parameters
  'params',   -- the text that was hashed
  'ttl_ms',   -- for how long it is not asked again
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
