-- After the store was lost: a hub says which leases it renewed a moment before. One that the store knows is extended to the
-- deadline its holder was told; one that it does not know yet gets it when its hub or its node says that it is lent. Safe
-- to repeat. Returns {'ok'}
-- @rest renewed                     per grant: slot, token, deadline on the hub clock in ms
-- @include store
-- @include reporting
for i = 1, #ARGV, 3 do
  local slot, token, deadline = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local left_ms = math.floor(deadline - clock_ms)
  if hearing and left_ms > 0 then
    redis.call('HSET', key_renewed, slot, token .. '|' .. string.format('%d', deadline))
    local known = redis.call('HGET', key_session(slot), 'leaseToken') == token
    if known and tonumber(redis.call('ZSCORE', key_deadlines, slot) or '0') < deadline then
      redis.call('ZADD', key_deadlines, deadline, slot)
      redis.call('SET', key_borrow_ttl(slot), '1', 'PX', left_ms)
      redis.call('HSET', key_slot(slot), 'visible_ms', now_ms + left_ms)
    end
  end
end
return {'ok'}
