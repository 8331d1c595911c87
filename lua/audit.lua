-- The audit log: who changed what.
local audit = {}

-- Write an entry down with the time of the store, to the microsecond, and keep so many. An entry is a JSON object without
-- the time. Returns what Redis says of it; a log that cannot be written fails nothing.
function audit.write(log, entry, max)
  local at = string.sub(times.text(store.now_ms), 1, 23) .. string.format('%03d0Z', store.now_us % 1000)
  local written = redis.pcall('LPUSH', log, '{"TimestampUtc":"' .. at .. '",' .. string.sub(entry, 2))
  redis.pcall('LTRIM', log, 0, max - 1)
  return written
end

return audit
