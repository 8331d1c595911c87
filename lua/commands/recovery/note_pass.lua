-- Store how many records of a source a pass found stuck, and the level of its alert, so that any hub can go on from there. The number
-- of a pass is kept for the window, or until a pass finds as few or fewer: the first one that is kept is the lowest. Safe to repeat:
-- the same pass gets the same answer. Returns {'ok', the level of the pass before, or ''}
local DAY_MS, KEPT_DAYS = 86400000, 92

-- Add what a pass did to the sums of its day (UTC), for reports.
local function count_day(a, did)
  local day = keys.zombie_day(string.format('%d:', math.floor(store.now_ms / DAY_MS)) .. a.source)
  local said = redis.call('HMGET', day, 'pass', 'most', 'worst')
  if said[1] == a.pass_id then return end
  redis.call('HSET', day, 'pass', a.pass_id)
  redis.call('HINCRBY', day, 'passes', 1)
  for name, some in pairs(did) do
    if some ~= '0' then redis.call('HINCRBY', day, name, some) end
  end
  if a.found ~= '' then
    local worst = ({ok = 0, warning = 1, critical = 2})[a.level]
    redis.call('HSET', day, 'most', math.max(tonumber(a.found), tonumber(said[2] or '0')),
      'worst', math.max(worst, tonumber(said[3] or '0')))
  end
  redis.call('PEXPIRE', day, KEPT_DAYS * DAY_MS)
end

command.change('recovery/note_pass', {
  'source',
  'pass_id',            -- id of the pass
  'found',              -- '' where this pass could not count: the number of the pass before stays
  'level',              -- of its alert: ok | warning | critical
  'window_ms: number',  -- how long numbers of passes are kept
  'keep_ms',            -- how long the last pass is kept
  'again',              -- '1' where a further growth is told, though the level may be the same
  'reset',              -- this and the next three: what else the pass did, as numbers
  'failed',
  'written',
  'errors',
}, function(a)
  count_day(a, {reset = a.reset, failed = a.failed, written = a.written, errors = a.errors})
  local zombies, counts = keys.zombies(a.source), keys.zombie_counts(a.source)
  local was = redis.call('HMGET', zombies, 'pass', 'before', 'level')
  if was[1] == a.pass_id then return {'ok', was[2]} end
  local before = was[3] or ''
  if a.found ~= '' then
    redis.call('HSET', zombies, 'pass', a.pass_id, 'before', before, 'found', a.found, 'level', a.level, 'at', store.now_ms)
    if a.again == '1' or a.level ~= before then redis.call('HSET', zombies, 'told', a.found, 'told_at', store.now_ms) end
    redis.call('ZREMRANGEBYSCORE', counts, '-inf', '(' .. store.now_ms - a.window_ms)
    local last = redis.call('ZRANGE', counts, -1, -1)[1]
    while last and tonumber(last) >= tonumber(a.found) do
      redis.call('ZREM', counts, last)
      last = redis.call('ZRANGE', counts, -1, -1)[1]
    end
    redis.call('ZADD', counts, store.now_ms, a.found)
    redis.call('PEXPIRE', counts, a.window_ms)
  end
  redis.call('PEXPIRE', zombies, a.keep_ms)
  return {'ok', before}
end)
