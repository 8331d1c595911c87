-- Look at records for what can never be right. Changes nothing. Of a record with the stuck status it says what is wrong with
-- its time: 'naive' (no offset) | 'unreadable' | 'late' (more than a day ahead) | 'ahead' (its score is) | '' (nothing).
-- KEYS: the index, then a key per id. Returns per id {type of its key, its status, its time, its attempts, what is wrong}
local status_field     = ARGV[1]
local updated_at_field = ARGV[2]
local attempts_field   = ARGV[3]      -- '' when nobody counts
local stuck            = ARGV[4]
local time_zone        = ARGV[5]      -- of a time without an offset: 'UTC', or '' when nobody knows
local where            = ARGV[6]     -- JSON: field -> the text it must hold
-- @rest ids
-- @include record
local tomorrow_us = now_us + 86400000000
local function wrong_with(id, updated_at)
  local us, why = read_time(updated_at, time_zone)
  if not us then return why ~= 'early' and why or '' end
  if us > tomorrow_us then return 'late' end
  local score = index == 'zset' and tonumber(redis.call('ZSCORE', KEYS[1], id) or '0') or 0
  if score == math.huge then return '' end
  return score * (score >= FIRST_MS and 1000 or 1000000) > tomorrow_us and 'ahead' or ''
end

local answers = {}
for i = 7, #ARGV do
  local key = KEYS[i - 5]
  local kind = redis.call('TYPE', key).ok
  local answer = {kind, false, false, false, ''}
  if kind == 'hash' then
    local found = redis.call('HMGET', key, status_field, updated_at_field, attempts_field)
    answer = {kind, found[1], found[2], found[3], ''}
    if found[1] == stuck and found[2] and is_wanted(key, where) then answer[5] = wrong_with(ARGV[i], found[2]) end
  end
  answers[i - 6] = answer
end
return answers
