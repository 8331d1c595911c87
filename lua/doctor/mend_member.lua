-- Take a member out of a private index that it does not belong into. Safe to repeat. Returns {'removed' | 'kept'}
local kind   = ARGV[1]
local owner  = ARGV[2]
local member = ARGV[3]
-- @include belongs
if belongs(kind, owner, member) then return {'kept'} end
if kind == 'beats' then redis.call('ZREM', key_beats, member) end
if kind == 'draining' then redis.call('SREM', key_draining, member) end
if kind == 'deadlines' then redis.call('ZREM', key_deadlines, member) end
if kind == 'asked' then redis.call('ZREM', key_asked(owner), member) end
if kind == 'run' then redis.call('ZREM', key_run(owner), member) end
if kind == 'lent' then redis.call('HDEL', key_lent(owner), member) end
if kind == 'node_slots' then redis.call('SREM', key_node_slots(owner), member) end
if kind == 'duty' then redis.call('HDEL', key_duty(owner), 'recycle:' .. member) end
if kind == 'pool_slots' then
  redis.call('SREM', key_pool_slots(owner), member)
  if redis.call('EXISTS', key_pool_slots(owner)) == 0 then redis.call('ZREM', key_pools, owner) end
end
return {'removed'}
