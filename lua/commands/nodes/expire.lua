-- Check a nominated node again and expire it in the same step if it is stale, so that no heartbeat can come between. While an operator
-- has switched expiry off a stale node is refreshed instead: the sweep may be that of a hub that stood still meanwhile.
-- Returns {'gone'} (not registered any more) | {'alive' | 'fresh', last seen} | {'ahead', last seen} (in the future by more than 5 s)
--   | {'stale', last seen} (of a dry run) | {'refreshed', last seen} (expiry is off or paused: its alive key was written)
--   | {'expired', last seen, slots dropped, {slot whose lease ended, ...}, slots left for nodes/prune}
command.finish('nodes/expire', {
  'id',                  -- raw id of the node
  'part',                -- key part of the id of the node
  'timeout_ms: number',  -- timeout of nodes
  'action',              -- 'expire' | 'refresh' | 'look' (a dry run)
  'keep',                -- '1': a node with a free slot, or one held back because it is suspect, is refreshed
  'limit: number',       -- most slots dropped in this call
}, function(a)
  if redis.call('SISMEMBER', keys.nodes, a.id) == 0 then
    if a.action ~= 'look' then nodes.remove(a.id, a.part, a.limit) end
    serving.opened()
    return {'gone'}
  end
  local word, seen = liveness.of(a.id, a.part, a.timeout_ms)
  if word == 'stale' and store.reporting then word = 'fresh' end  -- the store was away, and no node could be heard
  if word == 'ahead' and times.parse(seen) <= store.now_ms + 5000 then word = 'fresh' end  -- clocks of two machines differ a little
  if a.action ~= 'look' then
    liveness.note_signs(a.id, a.part, word, seen, a.timeout_ms)
  end
  if word ~= 'stale' or a.action == 'look' then return {word, seen} end
  if redis.call('HGET', keys.store, 'expire') == 'false' then a.action = 'refresh' end
  if a.keep == '1' then
    for _, slot in ipairs(redis.call('SRANDMEMBER', keys.node_slots(a.part), a.limit)) do
      local offered = redis.call('HGET', keys.slot(slot), 'place') == 'free'
      if offered or redis.call('SISMEMBER', keys.aside(a.part), slot) == 1 then a.action = 'refresh' end
    end
  end
  if a.action == 'refresh' then
    redis.call('SET', keys.node_alive(a.part), '1', 'EX', 30)
    redis.call('HSET', keys.orders(a.part), 'kept', store.clock_ms)
    return {'refreshed', seen}
  end
  redis.call('ZREM', keys.drain_deadlines, a.id)
  history.note('node.expired', 'node', a.id, 'last_seen', seen)
  local dropped, ended, left = nodes.remove(a.id, a.part, a.limit)
  serving.opened()
  return {'expired', seen, dropped, ended, left}
end)
