-- Take a member out of a private index that it does not belong into. Safe to repeat. Returns {'removed' | 'kept'}
command.change_unclocked('doctor/repair_member', {
  'kind',
  'owner',
  'member',
}, function(a)
  if indexes.belongs(a.kind, a.owner, a.member) then return {'kept'} end
  local remove = indexes.zsets[a.kind] and 'ZREM' or indexes.hashes[a.kind] and 'HDEL' or 'SREM'
  redis.call(remove, indexes.of(a.kind, a.owner), a.kind == 'orders' and 'recycle:' .. a.member or a.member)
  if a.kind == 'pool_slots' and redis.call('EXISTS', keys.pool_slots(a.owner)) == 0 then redis.call('ZREM', keys.pools, a.owner) end
  return {'removed'}
end)
