-- @include instant
-- Forget a token, and have all hubs look up anew whom they remember; returns whether there was one, and the part of its node.
local function drop_token(id)
  local part = redis.call('HGET', key_token(id), 'part') or ''
  redis.call('ZREM', key_tokens, id)
  redis.call('ZREM', key_joined, id)
  if part ~= '' then redis.call('SREM', key_node_tokens(part), id) end
  if redis.call('DEL', key_token(id)) == 0 then return false, part end
  redis.call('HSET', key_store, 'tokens_changed', digits(next_us()))
  return true, part
end
