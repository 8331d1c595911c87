-- Names: full names of jobs and providers, room:category:name.
local names = {}

-- Return the room of a full name; nil for a text without a colon.
function names.room_of(full) return string.match(full, '^(.-):') end

-- Return whether a job is in the room @internal.
function names.is_internal(full) return string.sub(full, 1, 10) == '@internal:' end

-- Return an id of 32 hex digits with hyphens, as people see it.
function names.dashed(id)
  return table.concat({string.sub(id, 1, 8), string.sub(id, 9, 12), string.sub(id, 13, 16), string.sub(id, 17, 20),
    string.sub(id, 21)}, '-')
end

return names
