-- Store the answer of a provider to a question, for its owner or a superuser, and tell those who wait for it. When the results of a
-- room are too many or too large, the oldest are deleted. The owner may upload an answer before it is asked for.
-- Returns {'ok'} | {'provider'} (unknown) | {'forbidden'} (another user's) | {'unasked'} (a superuser's answer to no question) |
--   {'quota'} (it is larger than all results of a room may be)
command.add('providers/upload', {
  'id',             -- id of the provider
  'user',           -- the calling user
  'superuser',      -- '1' | '0'
  'hash',           -- digest of the parameters of the question
  'body',           -- the answer
  'ttl_ms',         -- how long the answer is kept
  'quota: number',  -- most bytes of results of a room
  'most: number',   -- most results of a room: each costs memory beside its bytes
}, function(a)
  local full = redis.call('GET', keys.provider_name(a.id))
  if not full then return {'provider'} end
  local own, about = redis.call('HGET', keys.provider(full), 'user') == a.user, a.id .. ':' .. a.hash
  if not own and a.superuser ~= '1' then return {'forbidden'} end
  if not own and redis.call('EXISTS', keys.wanted(about)) == 0 then return {'unasked'} end
  if #a.body > a.quota then return {'quota'} end

  local list, sizes = keys.room_results(names.room_of(full)), keys.room_sizes(names.room_of(full))
  local function forget(result)
    local size = redis.call('HGET', sizes, result)
    if size then redis.call('HINCRBY', sizes, 'total', 0 - tonumber(size)) end
    redis.call('HDEL', sizes, result)
    redis.call('ZREM', list, result)
  end
  for _, lapsed in ipairs(redis.call('ZRANGEBYSCORE', list, '-inf', store.now_ms, 'LIMIT', 0, 100)) do forget(lapsed) end
  forget(about)
  while tonumber(redis.call('HGET', sizes, 'total') or '0') + #a.body > a.quota or redis.call('ZCARD', list) >= a.most do
    local oldest = redis.call('ZRANGE', list, 0, 0)[1]
    if not oldest then break end
    redis.call('DEL', keys.result(oldest))
    forget(oldest)
  end
  redis.call('ZADD', list, store.now_ms + a.ttl_ms, about)
  redis.call('HSET', sizes, about, #a.body)
  redis.call('HINCRBY', sizes, 'total', #a.body)
  for _, key in ipairs({list, sizes}) do redis.call('PEXPIRE', key, a.ttl_ms + 60000) end

  redis.call('SET', keys.result(about), a.body, 'PX', a.ttl_ms)
  redis.call('DEL', keys.inflight(about))
  notifications.publish(keys.result_notice(about), '')
  events.emit('provider_result_ready', 'room:' .. names.room_of(full), '{"provider_name":' .. cjson.encode(full) .. ',"request_hash":'
    .. cjson.encode(a.hash) .. '}')
  return {'ok'}
end)
