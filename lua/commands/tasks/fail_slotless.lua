-- Fail the attempts of tasks that have lost a slot, or queue the tasks again where they have attempts left. Safe to repeat.
-- Returns {'ok', how many failed or are queued again, 1 | 0 (there may be more)}
command.finish('tasks/fail_slotless', {
  'limit: number',  -- most losses in this call
}, function(a)
  local failed = 0
  local losses = redis.call('LPOP', keys.slot_losses, a.limit) or {}
  for _, loss in ipairs(losses) do
    local id, bundle, slot = string.match(loss, '^(%x+)|([^|]*)|(.*)$')
    local t = id and tasks.read(id)
    if t and t.slots == bundle and tasks.is_held(t.status) then
      local worker = t.worker
      outcomes.fail(t, 'Slot lost: ' .. slot, 'slot:' .. bundle)
      workers.tell_taken(worker)
      jobs.check_orphan(t.job)
      failed = failed + 1
    end
  end
  return {'ok', failed, #losses == a.limit and 1 or 0}
end)
