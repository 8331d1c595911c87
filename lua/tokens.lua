-- API tokens.
local tokens = {}

-- Forget a token, and have all hubs look up anew whom they remember; returns whether there was one, and the part of its node.
function tokens.drop(id)
  local part = lenient.fields(keys.token(id), 'part')[1] or ''
  redis.call('ZREM', keys.tokens, id)
  redis.call('ZREM', keys.joined, id)
  if part ~= '' then redis.call('SREM', keys.node_tokens(part), id) end
  if redis.call('DEL', keys.token(id)) == 0 then return false, part end
  redis.call('HSET', keys.store, 'tokens_changed', numbers.digits(store.next_us()))
  return true, part
end

-- Keep a token under its id, with these fields; returns when it was made.
function tokens.keep(id, part, ...)
  local at = numbers.digits(store.next_us())
  redis.call('HSET', keys.token(id), 'at', at, 'part', part, ...)
  -- The first one makes strangers of all who showed nothing.
  if redis.call('EXISTS', keys.tokens) == 0 then redis.call('HSET', keys.store, 'tokens_changed', at) end
  redis.call('ZADD', keys.tokens, at, id)
  if part ~= '' then redis.call('SADD', keys.node_tokens(part), id) end
  return at
end

return tokens
