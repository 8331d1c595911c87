-- Go on with telling waiting tasks that their parents are over, and check the parents of tasks that were told nothing for a minute.
-- Safe to repeat. Returns {'ok', 1 | 0 (there may be more)}
command.finish('tasks/settle', {
  'limit: number',  -- most tasks that are checked in this call
}, function(a)
  chains.go_on(outcomes.close)
  local unheard = redis.call('ZRANGE', keys.blocked, '-inf', store.clock_ms, 'BYSCORE', 'LIMIT', 0, a.limit)
  for _, id in ipairs(unheard) do
    local t = tasks.read(id)
    if t and t.after then chains.look_again(t, outcomes.close) else redis.call('ZREM', keys.blocked, id) end
  end
  return {'ok', (call_state.to_settle <= 0 or #unheard == a.limit) and 1 or 0}
end)
