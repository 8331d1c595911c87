-- Take readers off a group that have been silent for so long, as those of dead processes are. One that still holds entries
-- stays until they were handed on, for they would be lost with it; one that lives is back with its next read.
-- Safe to repeat. Returns how many went.
command.change_unclocked('internal/forget_readers', {
  'key',              -- stream
  'group',
  'idle_ms: number',
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
