-- Keep how many records of a source a pass found stuck, and the level of its alert, so that any hub goes on from there.
-- Of the passes within the window those are kept below whose number nothing was found later: the first is the lowest.
-- Safe to repeat: the same pass, the same answer. Returns {'ok', the level before, or ''}
local source    = ARGV[1]
local pass_id   = ARGV[2]
local found     = ARGV[3]               -- '' when this pass could not count: what the last one found stays
local level     = ARGV[4]
local window_ms = tonumber(ARGV[5])
local keep_ms   = ARGV[6]
local again     = ARGV[7]               -- '1' when a further growth is told, though the level may be the same
-- @include store
local zombies, counts = key_zombies(source), key_zombie_counts(source)
local was = redis.call('HMGET', zombies, 'pass', 'before', 'level')
if was[1] == pass_id then return {'ok', was[2]} end
local before = was[3] or ''
if found ~= '' then
  redis.call('HSET', zombies, 'pass', pass_id, 'before', before, 'found', found, 'level', level, 'at', now_ms)
  if again == '1' or level ~= before then redis.call('HSET', zombies, 'told', found, 'told_at', now_ms) end
  redis.call('ZREMRANGEBYSCORE', counts, '-inf', '(' .. now_ms - window_ms)
  local last = redis.call('ZRANGE', counts, -1, -1)[1]
  while last and tonumber(last) >= tonumber(found) do
    redis.call('ZREM', counts, last)
    last = redis.call('ZRANGE', counts, -1, -1)[1]
  end
  redis.call('ZADD', counts, now_ms, found)
  redis.call('PEXPIRE', counts, window_ms)
end
redis.call('PEXPIRE', zombies, keep_ms)
return {'ok', before}
