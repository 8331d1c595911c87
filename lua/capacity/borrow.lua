-- Lend the slot that has waited longest in the best pool for a label: list move, session, deadline, count, in one step.
-- Safe to repeat: the same request id gets the same grant and changes nothing.
-- Returns {'ok', slot, token, item, pool, ms until it lapses, ms of the lease, run, dropped}
--   | {'empty', dropped} | {'capped', in flight} | {'settling', ms} | {'over', slot} (that grant has ended)
--   | {'undone'} (the request was withdrawn) | {'reused'} (same request id, other request)
local label       = ARGV[1]
local trailing    = ARGV[2]
local prefix      = ARGV[3]
local wildcards   = ARGV[4]
local ttl_ms      = tonumber(ARGV[5])
local idle_ms     = tonumber(ARGV[6])   -- 0: no idle rule
local cap         = tonumber(ARGV[7])   -- 0: none
local run         = ARGV[8]
local request     = ARGV[9]             -- request id
local attempt     = ARGV[10]            -- of this very call: whoever repeats a request takes its grant over
local fingerprint = ARGV[11]            -- of what was asked for
local keep_s      = ARGV[12]            -- how long the request id is remembered
-- @include store
-- @include match
-- @include lend
local before, withdrawn = unpack(redis.call('MGET', key_request(request), key_request(attempt)))
if withdrawn == 'undone' then return {'undone'} end
local asked, slot, token = string.match(before or '', '^(.-)|(.*)|(%d+)|.*$')
if before and asked ~= fingerprint then return {'reused'} end
if before then
  local held = redis.call('HMGET', key_session(slot), 'leaseToken', 'poolLabel', 'ttlSeconds', 'runId')
  if held[1] ~= token then return {'over', slot} end
  redis.call('SET', key_request(request), table.concat({fingerprint, slot, token, attempt}, '|'), 'KEEPTTL')
  local left_ms = tonumber(redis.call('ZSCORE', key_deadlines, slot) or clock_ms) - clock_ms
  return {'ok', slot, token, redis.call('HGET', key_slot(slot), 'item'), held[2], math.max(0, math.floor(left_ms)),
    math.floor(tonumber(held[3]) * 1000), held[4], {}}
end
if settle_left_ms > 0 then return {'settling', math.ceil(settle_left_ms)} end
if cap > 0 then
  local live = redis.call('ZCARD', key_asked(label))
  if live >= cap then return {'capped', live} end
end

local found = match(label, trailing, prefix, wildcards)
if not found then return {'empty', dropped} end
redis.call('HINCRBY', key_store, 'token', 1)
found.token = redis.call('HGET', key_store, 'token')   -- read as text: it has more digits than a Lua number
found.label, found.run, found.ttl_ms = label, run, ttl_ms
found.idle_ms = idle_of(found.own_idle_ms, idle_ms, ttl_ms)
lend(found)
redis.call('SET', key_request(request), table.concat({fingerprint, found.slot, found.token, attempt}, '|'), 'EX',
  keep_s)
return {'ok', found.slot, found.token, found.item, found.pool, ttl_ms, ttl_ms, run, dropped}
