-- Look whether a pool has a slot that could be lent beside a live waiter who may have it. Changes nothing.
-- Returns per pool {} | {'waited for'}
-- @rest pools
-- @include store
-- @include next_waiter
-- @include suspect
-- @include item
local function lendable(pool)
  for _, item in ipairs(redis.call('LRANGE', key_available(pool), 0, 19)) do
    local record = redis.call('HMGET', key_slot(glance(item) or ''), 'item', 'node', 'reported', 'part')
    if record[1] == item and not suspect(record[2], record[4], record[3]) then return true end
  end
end
local function attended(label)
  local hub = redis.call('HGET', key_ticket(redis.call('ZRANGE', key_line(label), 0, 0)[1] or ''), 'hub')
  local heard = hub and redis.call('ZSCORE', key_hubs, hub)
  return heard and clock_ms - tonumber(heard) <= SILENT_MS
end
local answers = {}
for i = 1, #ARGV do
  local pool, found = ARGV[i], nil
  if settle_left_ms <= 0 and redis.call('EXISTS', key_maintenance(pool)) == 0 then
    local label = next_label(pool)
    found = label and not capped(label) and attended(label) and lendable(pool)
  end
  answers[i] = found and {'waited for'} or {}
end
return answers
