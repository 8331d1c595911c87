-- Forget a connection that has ended: its workers without another connection are removed unless they bind again within the grace. Safe
-- to repeat. Returns {'ok', number of workers that have hung up}
command.finish('presence/unbind', {
  'connection',
  'hub',               -- the hub that had the connection
  'grace_ms: number',  -- on the hub clock; -1: they are not removed for it, their heartbeats decide
}, function(a)
  local hung_up = 0
  connections.unbind(a.connection, a.hub, function(worker)
    if a.grace_ms < 0 then return end
    redis.call('ZADD', keys.hung_up, store.clock_ms + a.grace_ms, worker)
    hung_up = hung_up + 1
  end)
  return {'ok', hung_up}
end)
