-- Forget the executors of all @internal jobs but those named: what a deployment no longer offers is refused from now on.
-- Safe to repeat. Returns {'ok', how many were forgotten}
command.finish('internal/keep_executors', {
  '...names',
}, function(_, argv)
  local named, forgotten = {}, 0
  for _, full in ipairs(argv) do named[full] = true end
  for _, full in ipairs(redis.call('SMEMBERS', keys.executors)) do
    if not named[full] then forgotten = forgotten + redis.call('SREM', keys.executors, full) end
  end
  return {'ok', forgotten}
end)
