-- Delete a reader of a group in a stream; while it holds entries, let other readers take these at once instead. Safe to repeat. Returns
-- the number of entries that it holds, up to 1,000.
command.change_unclocked('internal/leave', {
  'key',      -- key of the stream
  'group',
  'reader',
  'idle_ms',  -- idle ms after which other readers take an entry
}, function(a)
  local held = redis.pcall('XPENDING', a.key, a.group, '-', '+', 1000, a.reader)
  if held.err then return 0 end
  for _, entry in ipairs(held) do redis.call('XCLAIM', a.key, a.group, a.reader, 0, entry[1], 'IDLE', a.idle_ms, 'JUSTID') end
  if #held == 0 then redis.call('XGROUP', 'DELCONSUMER', a.key, a.group, a.reader) end
  return #held
end)
