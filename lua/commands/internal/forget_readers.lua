-- Delete readers of a group in a stream that have been silent for longer than idle_ms, like those of processes that are dead. A reader
-- that still holds entries stays until these were handed to others: they would be lost with it. A reader that is alive is made again by
-- its next read. Safe to repeat. Returns the number of readers deleted.
command.change_unclocked('internal/forget_readers', {
  'key',              -- key of the stream
  'group',
  'idle_ms: number',  -- longest silence of a reader
}, function(a)
  local readers = redis.pcall('XINFO', 'CONSUMERS', a.key, a.group)
  local gone = 0
  for _, facts in ipairs(readers.err and {} or readers) do
    local found = {}
    for i = 1, #facts, 2 do found[facts[i]] = facts[i + 1] end
    if found.pending == 0 and found.idle > a.idle_ms then
      redis.call('XGROUP', 'DELCONSUMER', a.key, a.group, found.name)
      gone = gone + 1
    end
  end
  return gone
end)
