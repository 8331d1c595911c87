-- Patterns: texts that fit labels of pools, in which `*` stands for any text. Of several that fit, the longest counts.
local patterns = {}

-- Return a pattern split at each `*`.
function patterns.split(pattern)
  local parts = {}
  for part in string.gmatch(pattern .. '*', '(.-)%*') do parts[#parts + 1] = part end
  return parts
end

-- Return whether a pattern, split at each `*`, fits a label; `*` stands for any text.
function patterns.fits(parts, label)
  if #parts == 1 then return label == parts[1] end
  local first, last = parts[1], parts[#parts]
  local at, stop = #first + 1, #label - #last
  if string.sub(label, 1, #first) ~= first or at > stop + 1 or string.sub(label, stop + 1) ~= last then return false end
  for i = 2, #parts - 1 do
    local from, to = string.find(label, parts[i], at, true)
    if not from or to > stop then return false end
    at = to + 1
  end
  return true
end

-- Return whether one {pattern = ...} comes before another: the longer one.
function patterns.is_before(one, other)
  if #one.pattern ~= #other.pattern then return #one.pattern > #other.pattern end
  return one.pattern < other.pattern
end

return patterns
