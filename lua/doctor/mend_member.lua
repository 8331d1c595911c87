-- Take a member out of a private index that it does not belong into. Safe to repeat. Returns {'removed' | 'kept'}
local kind   = ARGV[1]
local owner  = ARGV[2]
local member = ARGV[3]
-- @include belongs
if belongs(kind, owner, member) then return {'kept'} end
local remove = zsets[kind] and 'ZREM' or hashes[kind] and 'HDEL' or 'SREM'
redis.call(remove, index_of(kind, owner), kind == 'duty' and 'recycle:' .. member or member)
if kind == 'pool_slots' and redis.call('EXISTS', key_pool_slots(owner)) == 0 then redis.call('ZREM', key_pools, owner) end
return {'removed'}
