-- Take a member out of an index of the jobs API that it does not belong into. Safe to repeat. Returns {'removed' | 'kept'}
command.change('doctor/repair_entry', {
  'kind',
  'owner',
  'member',
}, function(a)
  if entries.belongs(a.kind, a.owner, a.member) then return {'kept'} end
  local index = entries.of(a.kind, a.owner, a.member)
  if entries.held_in[a.kind] == 'string' then
    redis.call('DEL', index)
  else
    redis.call(entries.held_in[a.kind] == 'set' and 'SREM' or 'ZREM', index, a.member)
  end
  if a.kind == 'job_queue' then
    job_queue.set_head(a.owner)
    jobs.check_orphan(a.owner)
  end
  return {'removed'}
end)
