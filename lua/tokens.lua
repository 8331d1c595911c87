-- API tokens.
local tokens = {}

-- Forget a token, and have all hubs look up their remembered tokens anew; returns whether there was one, and the part of its node.
function tokens.drop(id)
  local token = lenient.fields(keys.token(id), 'part', 'by')
  local part, by = token[1] or '', token[2]
  redis.call('ZREM', keys.tokens, id)
  redis.call('ZREM', keys.joined, id)
  if by then redis.call('ZREM', keys.joining(by), id) end
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

-- Whether the node that made this token by joining has yet to register.
function tokens.is_joining(id)
  local by = redis.call('HGET', keys.token(id), 'by')
  return by and redis.call('ZSCORE', keys.joining(by), id)
end

-- A node has registered: a token that it made by joining is kept from now on for as long as it is shown.
function tokens.registered(part, keep_ms)
  for _, id in ipairs(redis.call('SMEMBERS', keys.node_tokens(part))) do
    local by = redis.call('HGET', keys.token(id), 'by')
    if by then redis.call('ZREM', keys.joining(by), id) end
    redis.call('ZADD', keys.joined, 'XX', store.clock_ms + keep_ms, id)
  end
end

return tokens
