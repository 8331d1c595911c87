-- Take a reader off its group, or, where it still holds entries, let the others have them at once.
-- Safe to repeat. Returns how many it still holds.
command.change_unclocked('internal/leave', {
  'key',      -- stream
  'group',
  'reader',
  'idle_ms',  -- after which others take an entry
}, function(a)
  local held = redis.pcall('XPENDING', a.key, a.group, '-', '+', 1000, a.reader)
  if held.err then return 0 end
  for _, entry in ipairs(held) do redis.call('XCLAIM', a.key, a.group, a.reader, 0, entry[1], 'IDLE', a.idle_ms, 'JUSTID') end
  if #held == 0 then redis.call('XGROUP', 'DELCONSUMER', a.key, a.group, a.reader) end
  return #held
end)
