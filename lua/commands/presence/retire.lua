-- Forget connections of hubs that no longer tick, in batches. No hub saw the workers of those disconnect, so their heartbeats decide.
-- Safe to repeat. Returns {'ok', connections forgotten, 1 | 0 (there may be more), 1 | 0 (`hub` has connections)}
command.finish('presence/retire', {
  'hub',            -- the calling hub
  'limit: number',  -- most connections in this call
}, function(a)
  local forgotten = 0
  for _, other in ipairs(redis.call('SMEMBERS', keys.socket_hubs)) do
    if other ~= a.hub and not redis.call('ZSCORE', keys.hubs, other) then
      for _, connection in ipairs(lenient.call({}, 'SRANDMEMBER', keys.connections(other), a.limit - forgotten)) do
        connections.unbind(connection, other, function() end)
        forgotten = forgotten + 1
      end
      if forgotten == a.limit then break end
      if redis.call('EXISTS', keys.connections(other)) == 0 then redis.call('SREM', keys.socket_hubs, other) end
    end
  end
  return {'ok', forgotten, forgotten == a.limit and 1 or 0, redis.call('SISMEMBER', keys.socket_hubs, a.hub)}
end)
