-- Look at tasks: which of them a worker has claimed and not started, and since when. Changes nothing.
-- Returns {now in ms, per task: 0 (none of those) | {ms since it was claimed, on the hub clock, how often it was brought back}}
command.read('tasks/find_claimed', {
  '...tasks',
}, function(_, argv)
  local answers = {store.now_ms}
  for i, id in ipairs(argv) do
    local t = redis.call('HMGET', keys.task(id), 'status', 'worker', 'job', 'claimed', 'unstuck')
    local held = t[1] == 'claimed' and t[2] and t[3] and t[4] and not names.is_internal(t[3])
    answers[i + 1] = held and {store.clock_ms - tonumber(t[4]), tonumber(t[5] or '0')} or 0
  end
  return answers
end)
