-- Take a member out of an index of the jobs API that it does not belong into. Safe to repeat. Returns {'removed' | 'kept'}
local kind   = ARGV[1]
local owner  = ARGV[2]
local member = ARGV[3]
-- @include job_entries
-- @include queue
-- @include orphan
if entry_belongs(kind, owner, member) then return {'kept'} end
local index = entry_index(kind, owner, member)
if held_in[kind] == 'string' then
  redis.call('DEL', index)
else
  redis.call(held_in[kind] == 'set' and 'SREM' or 'ZREM', index, member)
end
if kind == 'queue' then
  set_head(owner)
  check_orphan(owner)
end
return {'removed'}
