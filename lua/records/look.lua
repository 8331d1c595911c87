-- Look at records: which of them have the stuck status, and when each was updated last. Changes nothing.
-- KEYS: the index, then a key per id. Returns {now in us, per id: 0 (not stuck, or it has no time) | {updated in us, attempts}}
local status_field     = ARGV[1]
local updated_at_field = ARGV[2]
local attempts_field   = ARGV[3]      -- '' when nobody counts
local stuck            = ARGV[4]
local time_zone        = ARGV[5]      -- of a time without an offset: 'UTC', or '' when nobody knows
local where            = ARGV[6]     -- JSON: field -> the text it must hold
-- @rest ids
-- @include record
local fields = {status = status_field, updated_at = updated_at_field, attempts = attempts_field, time_zone = time_zone,
  where = where}
local answers = {string.format('%.0f', now_us)}
for i = 7, #ARGV do
  local t = read_record(ARGV[i], KEYS[i - 5], fields, stuck)
  answers[i - 5] = t and {string.format('%.0f', t.us), string.format('%.0f', t.attempts)} or 0
end
return answers
