-- Fail tasks whose time is over, the oldest first, or queue them again where they have attempts left. Safe to repeat.
-- Returns {'ok', tasks failed or queued again, 1 | 0 (there may be more)}
command.finish('tasks/overdue', {
  'kind',  -- internal (not ended in time), ownerless (claimed by no worker), runtime (over the limit of its claim), silent (for too long)
  'age_ms: number',  -- how long a task may be in the index of its kind, on the hub clock
  'limit: number',  -- most tasks in this call
}, function(a)
  local places = {internal = keys.internal_tasks, ownerless = keys.ownerless, runtime = keys.runtimes,
    silent = keys.silences}
  local errors = {internal = 'Internal worker timeout', ownerless = 'Worker disconnected', runtime = 'Runtime exceeded'}
  local function why(t)
    return errors[a.kind] or 'No progress for longer than maxSilenceSeconds (' .. t.silence / 1000 .. ')'
  end
  local late = redis.call('ZRANGE', places[a.kind], '-inf', '(' .. store.clock_ms - a.age_ms, 'BYSCORE', 'LIMIT', 0, a.limit)
  local failed = 0
  for _, id in ipairs(late) do
    local t = tasks.read(id)
    if t and (a.kind ~= 'silent' or t.silence) and (t.status == 'claimed' or t.status == 'running') then
      local worker = t.worker
      outcomes.fail(t, why(t), a.kind .. ':' .. id)
      workers.tell_taken(worker)
      jobs.check_orphan(t.job)
      failed = failed + 1
    end
    redis.call('ZREM', places[a.kind], id)
  end
  return {'ok', failed, #late == a.limit and 1 or 0}
end)
