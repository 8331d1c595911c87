-- Lenient reads: reading a key that an index names and that another program may have written with another type. Such a key counts as no
-- record, so that it keeps no command from the other members of the index.
local lenient = {}

-- Return the reply of a Redis command, or `otherwise` where its key has another type than the hub writes. Other errors are raised.
function lenient.call(otherwise, ...)
  local found = redis.pcall(...)
  if type(found) == 'table' and found.err then
    if not string.find(tostring(found.err), 'WRONGTYPE', 1, true) then error(found) end
    return otherwise
  end
  return found
end

-- Return the reply of HMGET; an empty table where the key has another type.
function lenient.fields(key, ...) return lenient.call({}, 'HMGET', key, ...) end

-- Return what `look` returns of a record, or `otherwise` where it raises an error: a list shows its other records all the same, and the
-- doctor says what is wrong with this one. `look` must change nothing.
function lenient.look(otherwise, look, ...)
  local is_read, found = pcall(look, ...)
  if is_read then return found end
  return otherwise
end

-- Return whether the fields of a record with these names are numbers; missing ones count as right.
function lenient.are_numbers(record, names)
  for _, name in ipairs(names) do
    if record[name] and not tonumber(record[name]) then return false end
  end
  return true
end

return lenient
