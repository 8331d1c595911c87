-- Bring stuck records back. Status and age are checked again here, by the clock of this Redis server, and no record changes that was
-- updated within the threshold. All records are read before the first is written: a script that fails in a read has written nothing.
-- Safe to repeat: a record that was brought back is not stuck any more. KEYS: the index, then a key per id.
-- Returns per id: 0 (not stuck) | 1 (brought back) | 2 (failed for good: its attempts are used up)
command('external/reset', {
  'status_field',
  'updated_at_field',
  'attempts_field',        -- '' when attempts are not counted
  'stuck',                 -- the status of stuck records
  'becomes',               -- their status when they are brought back
  'failed',                -- their status when they have no attempts left
  'error_field',           -- '' where no error is written
  'error_text',
  'max_attempts: number',  -- 0 for any number
  'threshold_us: number',
  'time_zone',             -- 'UTC': times without an offset are in UTC; '' when that is not known
  'where',                 -- JSON: field -> the text it must hold
  '...ids',
}, function(a, argv, given)
  records.begin(given[1])
  local fields = {status = a.status_field, updated_at = a.updated_at_field, attempts = a.attempts_field, time_zone = a.time_zone,
    where = a.where}
  local overdue, answers = {}, {}
  for i = 13, #argv do
    local t = records.read(argv[i], given[i - 11], fields, a.stuck)
    if t and records.now_us - t.us > a.threshold_us then overdue[i - 12] = t end
    answers[i - 12] = 0
  end

  for i, t in pairs(overdue) do
    local is_over = a.max_attempts > 0 and t.attempts >= a.max_attempts
    local written = {a.status_field, is_over and a.failed or a.becomes, a.updated_at_field, record_times.write(records.now_us, t.form)}
    local function write(field, value)
      if field == '' then return end
      written[#written + 1] = field
      written[#written + 1] = value
    end
    write(a.error_field, a.error_text)
    if not is_over then write(a.attempts_field, string.format('%.0f', t.attempts + 1)) end
    redis.call('HSET', t.key, unpack(written))
    if t.score_unit_us then
      local score = records.now_us / t.score_unit_us
      if t.score_is_whole then score = math.floor(score) end
      redis.call('ZADD', given[1], 'XX', 'GT', string.format('%.6f', score), t.id)
    end
    answers[i] = is_over and 2 or 1
  end
  return answers
end)
