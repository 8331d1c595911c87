-- Read which records have the stuck status, and when each was updated last; changes nothing. KEYS: the index, then a key per id.
-- Returns {now in us, per id: 0 (not stuck, or its time cannot be read) | {updated in us, attempts}}
command('external/find', {
  'status_field',
  'updated_at_field',
  'attempts_field',  -- '' when attempts are not counted
  'stuck',           -- the status of stuck records
  'time_zone',       -- 'UTC': times without an offset are in UTC; '' when that is not known
  'where',           -- JSON: field -> the text it must hold
  '...ids',
}, function(a, argv, given)
  records.begin(given[1])
  local fields = {status = a.status_field, updated_at = a.updated_at_field, attempts = a.attempts_field, time_zone = a.time_zone,
    where = a.where}
  local answers = {string.format('%.0f', records.now_us)}
  for i = 7, #argv do
    local t = records.read(argv[i], given[i - 5], fields, a.stuck)
    answers[i - 5] = t and {string.format('%.0f', t.us), string.format('%.0f', t.attempts)} or 0
  end
  return answers
end)
