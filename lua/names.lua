-- The full names of jobs and providers: room:category:name.
local names = {}

function names.room_of(full) return string.match(full, '^(.-):') end

function names.is_internal(full) return string.sub(full, 1, 10) == '@internal:' end

return names
