-- @include instant
-- Keep a token under its id, with these fields; returns when it was made.
local function keep_token(id, part, ...)
  local at = digits(next_us())
  redis.call('HSET', key_token(id), 'at', at, 'part', part, ...)
  -- The first one makes strangers of all who showed nothing.
  if redis.call('EXISTS', key_tokens) == 0 then redis.call('HSET', key_store, 'tokens_changed', at) end
  redis.call('ZADD', key_tokens, at, id)
  if part ~= '' then redis.call('SADD', key_node_tokens(part), id) end
  return at
end
