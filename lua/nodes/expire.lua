-- Check a nominated node again and, if it is stale, expire it in the same step: no beat can come between.
-- Returns {'gone'} (not registered any more) | {'alive' | 'fresh', last seen} | {'ahead', last seen} (by more than 5 s)
--   | {'stale', last seen} (dry run) | {'refreshed', last seen} (expiry is off or paused)
--   | {'expired', last seen, slots dropped, {slots whose grant ended}, slots left for the next bite}
local id         = ARGV[1]
local part       = ARGV[2]
local timeout_ms = tonumber(ARGV[3])
local action     = ARGV[4]           -- 'expire' | 'refresh' | 'look'
local keep       = ARGV[5]           -- '1': a node with a free slot is kept alive
local limit      = tonumber(ARGV[6])
-- @include store
-- @include liveness
-- @include reporting
-- @include remove_node
-- @include serve
if redis.call('SISMEMBER', key_nodes, id) == 0 then
  if action ~= 'look' then remove_node(id, part, limit) end
  serve_opened()
  return {'gone'}
end
local word, seen = liveness(id, part, timeout_ms)
if word == 'stale' and reporting then word = 'fresh' end  -- the store was away, and so nobody could be heard
if word == 'ahead' and parse_time(seen) <= now_ms + 5000 then word = 'fresh' end  -- no two clocks agree
if action ~= 'look' then
  -- @include signs
  note_signs(id, part, word, seen, timeout_ms)
end
if word ~= 'stale' or action == 'look' then return {word, seen} end
if keep == '1' then
  for _, slot in ipairs(redis.call('SRANDMEMBER', key_node_slots(part), limit)) do
    local offered = redis.call('HGET', key_slot(slot), 'place') == 'free'
    if offered or redis.call('SISMEMBER', key_aside(part), slot) == 1 then action = 'refresh' end
  end
end
if action == 'refresh' then
  redis.call('SET', key_node_alive(part), '1', 'EX', 30)
  redis.call('HSET', key_duty(part), 'kept', clock_ms)
  return {'refreshed', seen}
end
redis.call('ZREM', key_drain_deadlines, id)
note('node.expired', 'node', id, 'last_seen', seen)
local dropped, ended, left = remove_node(id, part, limit)
serve_opened()
return {'expired', seen, dropped, ended, left}
