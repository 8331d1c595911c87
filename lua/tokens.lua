-- Tokens of the API: how they are stored and deleted.
local tokens = {}

-- Delete a token, and make all hubs forget the tokens that they remember. Returns whether it existed, and the key part of its node or
-- ''.
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

-- Store a token under its id, with these fields. Returns when it was made, in microseconds as text.
function tokens.keep(id, part, ...)
  local at = numbers.digits(store.next_us())
  redis.call('HSET', keys.token(id), 'at', at, 'part', part, ...)
  -- With the first token, callers without a token are admitted no longer: hubs have to look again.
  if redis.call('EXISTS', keys.tokens) == 0 then redis.call('HSET', keys.store, 'tokens_changed', at) end
  redis.call('ZADD', keys.tokens, at, id)
  if part ~= '' then redis.call('SADD', keys.node_tokens(part), id) end
  return at
end

-- Return whether the node that made this token by joining has not registered yet; false or nil if it has.
function tokens.is_joining(id)
  local by = redis.call('HGET', keys.token(id), 'by')
  return by and redis.call('ZSCORE', keys.joining(by), id)
end

-- Note that a node has registered: tokens that it made by joining are kept for `keep_ms`, and for as long again each time one is shown.
function tokens.registered(part, keep_ms)
  for _, id in ipairs(redis.call('SMEMBERS', keys.node_tokens(part))) do
    local by = redis.call('HGET', keys.token(id), 'by')
    if by then redis.call('ZREM', keys.joining(by), id) end
    redis.call('ZADD', keys.joined, 'XX', store.clock_ms + keep_ms, id)
  end
end

return tokens
