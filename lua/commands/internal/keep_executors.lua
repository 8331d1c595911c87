-- Forget the executors of all @internal jobs except those named: tasks of jobs that a deployment no longer offers are refused from now
-- on. Safe to repeat. Returns {'ok', number of jobs forgotten}
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
