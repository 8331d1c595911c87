-- Open the store: start its hub clock and its tokens, or notice that the server was restarted. Tokens begin at (milliseconds since
-- 1970) * 2^20, above all tokens that were issued before, also those that a restart has lost, and above the highest one that the
-- calling hub remembers, in case the time of the server was set back. After a loss nothing is lent for settle_ms, so that each hub can
-- say what it lent last; and a node's slots are lent only when it has reported them, or after one node timeout. The hub clock of a
-- store that came back empty goes on where the calling hub heard it last: hubs date by it what they remember. Safe to repeat.
-- A hub that stood still does not know what the others did since: it leaves a store that came back empty to them ('later'). A store in
-- a format above `format` is left alone ('newer'), and so is one that moves or has moved to another server, or that is being filled
-- from a copy.
-- Returns {'open' (it was open) | 'new' | 'restarted' | 'later' | 'newer' | 'moving' | 'moved' | 'filling', generation (of 'newer' the
--   format, of 'moving' and 'moved' the URL of the other server), clock_ms, Redis time in ms, the generation with which the store began
--   or ''}
command.open('store/open', {
  'run_id',             -- id of the process of the Redis server: another one means a restart or a failover
  'lost',               -- '1' when the calling hub knew this store before, 'asleep' when it also stood still since, else '0'
  'settle_ms: number',  -- how long nothing is lent after a loss
  'floor',              -- the highest token that the calling hub remembers, '0' for none
  'timeout_ms',         -- timeout of nodes, '0' when the caller does not know it
  'heard_ms',           -- the hub clock as the caller heard it last, '0' for never
  'cluster',            -- '1': the server belongs to a cluster
  'format: number',     -- the highest format that the calling hub knows; a new store gets it
}, function(a)
  local in_cluster = a.cluster == '1'
  if in_cluster then command.stay_whole() end
  local time = redis.call('TIME')
  local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  local was = redis.call('HMGET', keys.store, 'generation', 'run_id', 'token', 'clock_ms', 'lost_above', 'reopened_ms',
    'timeout_ms', 'format', 'born', 'moving_to', 'moved')
  if was[11] then return {'moved', was[11], 0, now_ms, ''} end
  if was[10] then return {'moving', was[10], 0, now_ms, ''} end
  if redis.call('EXISTS', keys.restoring) == 1 then return {'filling', '', 0, now_ms, ''} end
  if tonumber(was[8] or '1') > a.format then return {'newer', was[8], 0, now_ms, ''} end
  if was[1] and was[2] == a.run_id then
    store.open_as(was[1], in_cluster)
    return {'open', was[1], tonumber(was[4]), now_ms, was[9] or ''}
  end

  if not was[1] and a.lost == 'asleep' then return {'later', '', 0, now_ms, ''} end

  -- The lost leases have tokens between the counter that came back and the new base.
  local base = string.format('%.0f', now_ms * 1048576)
  local highest = was[3] or '0'  -- as text: 19 digits are more than a Lua number holds
  if #a.floor > #highest or (#a.floor == #highest and a.floor > highest) then highest = a.floor end
  if #base > #highest or (#base == #highest and base > highest) then
    redis.call('HSET', keys.store, 'token', base)
  else
    redis.call('HSET', keys.store, 'token', highest)
    redis.call('HINCRBY', keys.store, 'token', 1048576)
  end
  local generation = now_ms .. '-' .. a.run_id
  local clock_ms = tonumber(was[4] or a.heard_ms)
  -- A restart before all nodes have reported since the last one: what both have lost cannot be told apart.
  local lost_above = was[3] or '0'
  if was[6] and clock_ms - tonumber(was[6]) < tonumber(was[7] or '0') then lost_above = was[5] end
  redis.call('HSET', keys.store, 'lost_above', lost_above, 'lost_below', redis.call('HGET', keys.store, 'token'))
  redis.call('HSET', keys.store, 'generation', generation, 'run_id', a.run_id, 'clock_ms', clock_ms, 'tick_ms', now_ms,
    'format', was[8] or (was[1] and '1') or a.format)
  store.open_as(generation, in_cluster)
  if not was[1] then redis.call('HSET', keys.store, 'born', generation, 'born_ms', clock_ms) end
  if not was[7] and a.timeout_ms ~= '0' then redis.call('HSET', keys.store, 'timeout_ms', a.timeout_ms) end
  if was[1] or a.lost ~= '0' then
    redis.call('HSET', keys.store, 'settle_ms', clock_ms + a.settle_ms, 'reopened_ms', clock_ms)
    redis.call('DEL', keys.telling)
    for _, hub in ipairs(redis.call('ZRANGE', keys.hubs, clock_ms - 3000, '+inf', 'BYSCORE')) do
      redis.call('SADD', keys.telling, hub)
    end
  end
  return {was[1] and 'restarted' or 'new', generation, clock_ms, now_ms, was[1] and was[9] or generation}
end)
