-- The audit log: a list of entries that say who changed what, newest first.
local audit = {}

local WINDOW = 1000  -- how many of the oldest entries `trim` looks at: a longer look would block Redis for too long

-- Return the credential that an entry names, else the address that it names, else ''.
local function source(entry)
  return string.match(entry, '"By":"([^"]*)"') or string.match(entry, '"RemoteIp":"([^"]*)"') or ''
end

-- Return the largest number of entries that each source may keep so that the sources together keep at most `most`, and how many further
-- entries may be kept beyond that. counts: source -> number of its entries.
local function share(counts, most)
  local low, high, rest = 0, most, most
  while low < high do
    local middle, sum = math.ceil((low + high) / 2), 0
    for _, count in pairs(counts) do sum = sum + math.min(count, middle) end
    if sum <= most then low, rest = middle, most - sum else high = middle - 1 end
  end
  return low, rest
end

-- Shorten a list to about `max` entries. Among the oldest entries those of the source that wrote most of them are deleted first, so
-- that a source that writes without end pushes out only its own entries. Nothing is deleted before the list is a fiftieth (at most 200
-- entries) too long.
local function trim(log, max)
  local over = redis.call('LLEN', log) - max
  if over <= (max < 200 and 0 or math.min(200, math.floor(max / 50))) then return end
  if over > WINDOW / 2 then return redis.call('LTRIM', log, 0, max - 1) end  -- `max` was lowered
  local oldest, counts, kept = redis.call('LRANGE', log, -WINDOW, -1), {}, {}
  for _, entry in ipairs(oldest) do counts[source(entry)] = (counts[source(entry)] or 0) + 1 end
  local each, rest = share(counts, #oldest - over)
  local used = {}
  for _, entry in ipairs(oldest) do
    local of = source(entry)
    local more = (used[of] or 0) >= each
    if not more then used[of] = (used[of] or 0) + 1 end
    if not more or rest > 0 then kept[#kept + 1] = entry end
    if more then rest = rest - 1 end
  end
  redis.call('LTRIM', log, 0, -#oldest - 1)
  redis.call('RPUSH', log, unpack(kept))
end

-- Write an entry, a JSON object without its time, into a list with the time of Redis to the microsecond, and keep about `max` entries.
-- Returns the length of the list, or the error of Redis as a table: a log that cannot be written makes no call fail.
function audit.write(log, entry, max)
  local at = string.sub(times.text(store.now_ms), 1, 23) .. string.format('%03d0Z', store.now_us % 1000)
  local written = redis.pcall('LPUSH', log, '{"TimestampUtc":"' .. at .. '",' .. string.sub(entry, 2))
  if type(written) == 'number' then trim(log, max) end
  return written
end

return audit
