-- The audit log: who changed what.
local audit = {}

local WINDOW = 1000  -- the oldest entries, of which some go: more of them would hold others up

-- The credential that an entry names, else its address, else ''.
local function source(entry)
  return string.match(entry, '"By":"([^"]*)"') or string.match(entry, '"RemoteIp":"([^"]*)"') or ''
end

-- How many entries each source may keep, so that no more than `most` stay in all, and how many more may be kept.
local function share(counts, most)
  local low, high, rest = 0, most, most
  while low < high do
    local middle, sum = math.ceil((low + high) / 2), 0
    for _, count in pairs(counts) do sum = sum + math.min(count, middle) end
    if sum <= most then low, rest = middle, most - sum else high = middle - 1 end
  end
  return low, rest
end

-- Keep about `max` entries: of the oldest ones those of the source that has the most there go first, so that a source that
-- writes without end pushes out its own. What is over is taken out a fiftieth at a time.
local function trim(log, max)
  local over = redis.call('LLEN', log) - max
  if over <= (max < 200 and 0 or math.min(200, math.floor(max / 50))) then return end
  if over > WINDOW / 2 then return redis.call('LTRIM', log, 0, max - 1) end  -- fewer are to be kept than before
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

-- Write an entry down with the time of the store, to the microsecond, and keep so many. An entry is a JSON object without
-- the time. Returns what Redis says of it; a log that cannot be written fails nothing.
function audit.write(log, entry, max)
  local at = string.sub(times.text(store.now_ms), 1, 23) .. string.format('%03d0Z', store.now_us % 1000)
  local written = redis.pcall('LPUSH', log, '{"TimestampUtc":"' .. at .. '",' .. string.sub(entry, 2))
  if type(written) == 'number' then trim(log, max) end
  return written
end

return audit
