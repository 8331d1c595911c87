-- Wishes of bundles: what a borrow of several slots asks for. A unit is one of the slots.
local bundle_wishes = {}

-- Return the wish that a JSON text describes: parts {{label, want or '', its tree, how it was written, count}, ...}, units {{label, want,
-- part}, ...}, same_node, together, missing (slots that this
-- call has not found); nil for '', false for another text.
function bundle_wishes.read(text)
  if text == '' then return nil end
  local ok, said = pcall(cjson.decode, text)
  if not ok or type(said) ~= 'table' or type(said.parts) ~= 'table' then return false end
  for _, part in ipairs(said.parts) do
    local good = type(part) == 'table' and type(part[1]) == 'string' and type(part[2]) == 'string' and type(part[5]) == 'number'
    if not good then return false end
  end
  local wish = {parts = said.parts, units = {}, same_node = said.sameNode, together = said.together, missing = {}}
  for n, part in ipairs(said.parts) do
    if part[2] ~= '' then wants.learn(part[2], part[3]) end
    for _ = 1, part[5] do wish.units[#wish.units + 1] = {label = part[1], want = part[2], part = n} end
  end
  return wish
end

-- Return how many units are asked for under each label.
function bundle_wishes.counts(wish)
  local counts = {}
  for _, part in ipairs(wish.parts) do counts[part[1]] = (counts[part[1]] or 0) + part[5] end
  return counts
end

-- Return which parts a slot of a pool and a class may serve, {part: true}; nil for none.
function bundle_wishes.suits(wish, pool, class)
  local found
  for n, part in ipairs(wish.parts) do
    if pools.serves(part[1], pool) and (part[2] == '' or wants.suits(part[2], class)) then
      found = found or {}
      found[n] = true
    end
  end
  return found
end

return bundle_wishes
