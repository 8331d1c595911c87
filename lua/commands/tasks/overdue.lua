-- Fail tasks whose time is over, the oldest first, and try those again that have another attempt. Safe to repeat.
-- kind: 'internal' (an @internal task that nobody ended) | 'ownerless' (claimed by nobody) | 'runtime' (longer than its claim
-- allowed). Returns {'ok', how many failed, 1 | 0 (there may be more)}
command.change('tasks/overdue', {
  'kind',
  'age_ms: number',  -- how long they may stand there on the hub clock
  'limit: number',
}, function(a)
  local places = {internal = keys.internal_tasks, ownerless = keys.ownerless, runtime = keys.runtimes}
  local errors = {internal = 'Internal worker timeout', ownerless = 'Worker disconnected', runtime = 'Runtime exceeded'}
  local late = redis.call('ZRANGE', places[a.kind], '-inf', '(' .. store.clock_ms - a.age_ms, 'BYSCORE', 'LIMIT', 0, a.limit)
  local failed = 0
  for _, id in ipairs(late) do
    local t = tasks.read(id)
    if t and (t.status == 'claimed' or t.status == 'running') then
      outcomes.fail(t, errors[a.kind], a.kind .. ':' .. id)
      jobs.check_orphan(t.job)
      failed = failed + 1
    end
    redis.call('ZREM', places[a.kind], id)
  end
  return {'ok', failed, #late == a.limit and 1 or 0}
end)
