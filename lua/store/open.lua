-- Open the store: start its hub clock and its tokens, or notice that the server was restarted underneath.
-- Tokens restart at (milliseconds since 1970) * 2^20, above every token issued before, also those a restart has lost,
-- and above the highest one the calling hub remembers, should the server's time have gone back.
-- After a loss nothing is lent for settle_ms, so that every hub can say what it lent last, and a node's slots not until
-- it has reported them, for at most one node timeout. Safe to repeat.
-- The hub clock of a store that came back empty goes on where the calling hub heard it last: what hubs remember is dated
-- by it.
-- Returns {'open' | 'new' | 'restarted', generation, clock_ms, the time of Redis in ms}
local run_id    = ARGV[1]            -- of the Redis server: another one means that it was restarted or failed over
local lost      = ARGV[2]            -- '1' when the calling hub knew this store before
local settle_ms = tonumber(ARGV[3])
local floor     = ARGV[4]            -- the highest token the calling hub remembers, '0' for none
local timeout_ms = ARGV[5]           -- of nodes, '0' when the caller does not know
local heard_ms   = ARGV[6]           -- the hub clock as the caller heard it last, '0' when it never did
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local store = redis.call('HMGET', key_store, 'generation', 'run_id', 'token', 'clock_ms', 'lost_above', 'reopened_ms',
  'timeout_ms')
if store[1] and store[2] == run_id then return {'open', store[1], tonumber(store[4]), now_ms} end

-- What a restart lost are the grants with tokens between the counter that came back and the new base.
local base = string.format('%.0f', now_ms * 1048576)
local highest = store[3] or '0'  -- as text: 19 digits are more than a Lua number holds
if #floor > #highest or (#floor == #highest and floor > highest) then highest = floor end
if #base > #highest or (#base == #highest and base > highest) then
  redis.call('HSET', key_store, 'token', base)
else
  redis.call('HSET', key_store, 'token', highest)
  redis.call('HINCRBY', key_store, 'token', 1048576)
end
local generation = now_ms .. '-' .. run_id
local clock_ms = tonumber(store[4] or heard_ms)
-- Another restart, before the nodes have reported after the last one, loses nothing that could be told apart from that.
local lost_above = store[3] or '0'
if store[6] and clock_ms - tonumber(store[6]) < tonumber(store[7] or '0') then lost_above = store[5] end
redis.call('HSET', key_store, 'lost_above', lost_above, 'lost_below', redis.call('HGET', key_store, 'token'))
redis.call('HSET', key_store, 'generation', generation, 'run_id', run_id, 'clock_ms', clock_ms, 'tick_ms', now_ms)
if not store[1] then redis.call('HSET', key_store, 'born_ms', clock_ms) end
if not store[7] and timeout_ms ~= '0' then redis.call('HSET', key_store, 'timeout_ms', timeout_ms) end
if store[1] or lost == '1' then
  redis.call('HSET', key_store, 'settle_ms', clock_ms + settle_ms, 'reopened_ms', clock_ms)
  redis.call('DEL', key_telling)
  for _, hub in ipairs(redis.call('ZRANGE', key_hubs, clock_ms - 3000, '+inf', 'BYSCORE')) do
    redis.call('SADD', key_telling, hub)
  end
end
return {store[1] and 'restarted' or 'new', generation, clock_ms, now_ms}
