-- Read which of these tasks a worker has claimed and not started, and since when; changes nothing. Returns {now in ms, per task: 0 (not
-- such a task) | {ms on the hub clock since it was claimed, how often it was queued again for that}}
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
