-- Bring records back that are stuck: status and age are looked at again here, by the clock of this Redis, and nothing is
-- touched that was updated within the threshold. All of them are read before any is written: a script that fails has written
-- nothing. Safe to repeat: what was brought back is not stuck any more.
-- KEYS: the index, then a key per id. Returns per id: 0 (not stuck) | 1 (brought back) | 2 (failed for good)
local status_field     = ARGV[1]
local updated_at_field = ARGV[2]
local attempts_field   = ARGV[3]      -- '' when nobody counts
local stuck            = ARGV[4]
local becomes          = ARGV[5]
local failed           = ARGV[6]
local error_field      = ARGV[7]      -- '' when there is none
local error_text       = ARGV[8]
local max_attempts     = tonumber(ARGV[9])   -- 0 for any number
local threshold_us     = tonumber(ARGV[10])
local time_zone        = ARGV[11]     -- of a time without an offset: 'UTC', or '' when nobody knows
local where            = ARGV[12]     -- JSON: field -> the text it must hold
-- @rest ids
-- @include record
local fields = {status = status_field, updated_at = updated_at_field, attempts = attempts_field, time_zone = time_zone,
  where = where}
local overdue, answers = {}, {}
for i = 13, #ARGV do
  local t = read_record(ARGV[i], KEYS[i - 11], fields, stuck)
  if t and now_us - t.us > threshold_us then overdue[i - 12] = t end
  answers[i - 12] = 0
end

for i, t in pairs(overdue) do
  local is_over = max_attempts > 0 and t.attempts >= max_attempts
  local written = {status_field, is_over and failed or becomes, updated_at_field, write_time(now_us, t.form)}
  local function write(field, value)
    if field == '' then return end
    written[#written + 1] = field
    written[#written + 1] = value
  end
  write(error_field, error_text)
  if not is_over then write(attempts_field, string.format('%.0f', t.attempts + 1)) end
  redis.call('HSET', t.key, unpack(written))
  if t.score_unit_us then
    local score = now_us / t.score_unit_us
    if t.score_is_whole then score = math.floor(score) end
    redis.call('ZADD', KEYS[1], 'XX', 'GT', string.format('%.6f', score), t.id)
  end
  answers[i] = is_over and 2 or 1
end
return answers
