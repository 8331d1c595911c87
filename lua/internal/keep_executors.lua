-- Forget the executors of all @internal jobs but those named: what a deployment no longer offers is refused from now on.
-- Safe to repeat. Returns {'ok', how many were forgotten}
-- @rest names
-- @include store
local named, forgotten = {}, 0
for _, full in ipairs(ARGV) do named[full] = true end
for _, full in ipairs(redis.call('SMEMBERS', key_executors)) do
  if not named[full] then forgotten = forgotten + redis.call('SREM', key_executors, full) end
end
return {'ok', forgotten}
