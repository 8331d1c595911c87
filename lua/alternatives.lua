-- Alternatives: the labels under which a ticket waits, and what it wants there.
local alternatives = {}

-- Return the alternatives that a JSON text names; nil for '', false for another text.
function alternatives.read(text)
  if text == '' then return nil end
  local ok, found = pcall(cjson.decode, text)
  return ok and type(found) == 'table' and type(found[1]) == 'table' and found
end

-- Return the places of a ticket: its alternatives, or its label alone.
function alternatives.of(t) return t.alternatives or {{t.label, '', ''}} end

-- Return the label and the want of the first of them.
function alternatives.first(t)
  if t.alternatives then return t.alternatives[1][1], t.alternatives[1][2] end
  return t.label, ''
end

return alternatives
