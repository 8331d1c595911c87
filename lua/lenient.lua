-- Reading what a list names. A key of another type is no record of a hub: the list goes on behind it.
local lenient = {}

-- The reply of a command, or `otherwise` where its key has another type than the hub writes.
function lenient.call(otherwise, ...)
  local found = redis.pcall(...)
  if type(found) == 'table' and found.err then
    if not string.find(tostring(found.err), 'WRONGTYPE', 1, true) then error(found) end
    return otherwise
  end
  return found
end

-- Run HMGET; the answer is empty where the key has another type.
function lenient.fields(key, ...) return lenient.call({}, 'HMGET', key, ...) end

-- The answer of `look` about a record, or `otherwise` where it cannot be read: a list shows the other records all the same, and
-- the doctor says what is wrong with this one. `look` must change nothing.
function lenient.look(otherwise, look, ...)
  local is_read, found = pcall(look, ...)
  if is_read then return found end
  return otherwise
end

-- Whether the fields that are there are numbers, of those that must be.
function lenient.are_numbers(record, names)
  for _, name in ipairs(names) do
    if record[name] and not tonumber(record[name]) then return false end
  end
  return true
end

return lenient
