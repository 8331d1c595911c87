-- Stand for the office of cleaning a source: of the hubs that declare it one makes the passes, and stays in office while it
-- ticks. Also notes that the source is declared; one that no hub has declared for `keep_ms` is not known any more.
-- Safe to repeat: who is in office stays there. Returns {'ok'} | {'taken', hub}
local source  = ARGV[1]
local hub_id  = ARGV[2]
local keep_ms = tonumber(ARGV[3])
-- @include store
-- @include ticket
local known = redis.call('HGET', key_zombie_sources, source)
if not known then
  local all = redis.call('HGETALL', key_zombie_sources)
  for i = 1, #all, 2 do
    if now_ms - (tonumber(string.match(all[i + 1], '%d+$')) or 0) > keep_ms then
      redis.call('HDEL', key_zombie_sources, all[i])
    end
  end
end
local since_ms = known and string.match(known, '^%d+') or string.format('%.0f', now_ms)
redis.call('HSET', key_zombie_sources, source, since_ms .. ' ' .. string.format('%.0f', now_ms))
local office = key_zombie_office(source)
local holder = redis.call('GET', office)
if holder and holder ~= hub_id and heard(holder) then return {'taken', holder} end
redis.call('SET', office, hub_id, 'PX', keep_ms)
return {'ok'}
