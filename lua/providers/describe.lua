-- What providers are; nothing changes. Returns per provider: {full, id, at, schema, type, worker, user} | 0 (unknown)
-- @rest names
-- @include store
local answers = {}
for i, full in ipairs(ARGV) do
  local p = redis.call('HMGET', key_provider(full), 'id', 'at', 'schema', 'type', 'worker', 'user')
  answers[i] = p[1] and {full, unpack(p)} or 0
end
return answers
