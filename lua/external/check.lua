-- Read records to find what can never be right; changes nothing. KEYS: the index, then a key per id. Returns per id {type of its key,
-- its status, its time, its attempts, what is wrong with the time of a record with the stuck status: 'naive' (no offset) | 'unreadable'
-- | 'late' (more than a day ahead) | 'ahead' (its score in the index is) | '' (nothing)}
command('external/check', {
  'status_field',
  'updated_at_field',
  'attempts_field',  -- '' when attempts are not counted
  'stuck',           -- the status of stuck records
  'time_zone',       -- 'UTC': times without an offset are in UTC; '' when that is not known
  'where',           -- JSON: field -> the text it must hold
  '...ids',
}, function(a, argv, given)
  records.begin(given[1])
  local tomorrow_us = records.now_us + 86400000000
  local function wrong_with(id, updated_at)
    local us, why = record_times.read(updated_at, a.time_zone)
    if not us then return why ~= 'early' and why or '' end
    if us > tomorrow_us then return 'late' end
    local score = records.kind == 'zset' and tonumber(redis.call('ZSCORE', records.index, id) or '0') or 0
    if score == math.huge then return '' end
    return score * (score >= record_times.FIRST_MS and 1000 or 1000000) > tomorrow_us and 'ahead' or ''
  end

  local answers = {}
  for i = 7, #argv do
    local key = given[i - 5]
    local kind = redis.call('TYPE', key).ok
    local answer = {kind, false, false, false, ''}
    if kind == 'hash' then
      local found = redis.call('HMGET', key, a.status_field, a.updated_at_field, a.attempts_field)
      answer = {kind, found[1], found[2], found[3], ''}
      if found[1] == a.stuck and found[2] and records.is_wanted(key, a.where) then answer[5] = wrong_with(argv[i], found[2]) end
    end
    answers[i - 6] = answer
  end
  return answers
end)
