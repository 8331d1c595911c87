-- A hub has said what it remembers, after the store was lost. When all that ticked then have, lending goes on: at the
-- earliest after two ticks, for a hub that began in what was lost is not known here. Safe to repeat.
-- Tokens go on above the highest that this hub remembers, and the hub clock of a store that came back empty is not
-- behind what this hub heard. Returns {'ok', ms until settled}
local hub_id   = ARGV[1]
local floor    = ARGV[2]             -- the highest token it remembers, '0' for none
local heard_ms = tonumber(ARGV[3])   -- the highest reading of the hub clock that it remembers
-- @include store
-- @include above
local known = redis.call('SREM', key_telling, hub_id) == 1
if above(floor, opened[11]) then
  redis.call('HSET', key_store, 'token', floor)
  redis.call('HINCRBY', key_store, 'token', 1048576)
  if settle_left_ms > 0 then redis.call('HSET', key_store, 'lost_below', redis.call('HGET', key_store, 'token')) end
end
local behind_ms = heard_ms - math.floor(clock_ms)
if settle_left_ms > 0 and behind_ms > 0 and redis.call('HGET', key_store, 'lost_above') == '0' then
  for _, field in ipairs({'clock_ms', 'settle_ms', 'reopened_ms', 'born_ms'}) do
    redis.call('HINCRBY', key_store, field, string.format('%d', behind_ms))
  end
  clock_ms, opened[8] = clock_ms + behind_ms, opened[8] + behind_ms
end
if settle_left_ms > 0 and known and redis.call('EXISTS', key_telling) == 0 then
  settle_left_ms = math.max(0, math.min(settle_left_ms, opened[8] + 1000 - clock_ms))
  redis.call('HSET', key_store, 'settle_ms', string.format('%d', clock_ms + settle_left_ms))
end
return {'ok', math.max(0, settle_left_ms)}
