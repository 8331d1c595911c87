-- Matching: which pools may serve a label.
local matching = {}

-- Return the first slot that `take` finds in pools of n segments whose labels begin with the segments `want`; nil for none. Pools are
-- visited in order of their labels, at most 5,000; with `among` only those that have free slots of these classes.
local function walk(n, want, wild, take, among)
  local function fits(label)
    local i = 0
    for segment in string.gmatch(label, '[^:]+') do
      i = i + 1
      if i > #want then return true end
      if want[i] ~= '*' and want[i] ~= segment then return false end
    end
    return true
  end
  local indexes = {keys.open_pools(n)}
  if among and (not among[1] or redis.call('EXISTS', indexes[1]) == 0) then return nil end
  for i = 1, among and #among or 0 do indexes[i] = keys.open_class(n .. ' ' .. among[i]) end
  local head = {}
  for _, segment in ipairs(want) do
    if wild and segment == '*' then break end
    head[#head + 1] = segment
  end
  local lead = table.concat(head, ':')
  local from, upto = '-', '+'
  if #head > 0 and #head == n then
    from, upto = '[' .. lead, '[' .. lead
  elseif #head > 0 then
    from, upto = '[' .. lead .. ':', '(' .. lead .. ';'  -- ';' is the character behind ':'
  end
  for _ = 1, 50 do
    local page, last = pools.page(indexes, from, upto)
    for _, label in ipairs(page) do
      local found = (not wild or fits(label)) and take(label)
      if found then return found end
    end
    if not last then return nil end
    from = '(' .. last
  end
end

-- Find a slot for a label in pools with other labels. `wild` is true where a `*` in the label stands for any segment.
function matching.find_elsewhere(label, wild, take, among)
  local want = {}
  for segment in string.gmatch(label, '[^:]+') do want[#want + 1] = segment end
  for n = wild and #want or #want - 1, store.trailing == '1' and 2 or #want, -1 do
    local part = {unpack(want, 1, n)}
    local stem = table.concat(part, ':')
    local starred = wild and string.find(':' .. stem .. ':', ':*:', 1, true)
    local found
    if starred then found = walk(n, part, true, take, among) else found = take(stem) end
    if found then return found end
  end
  if store.prefix ~= '1' then return nil end
  for n = #want + 1, 8 do
    local found = walk(n, want, wild, take, among)
    if found then return found end
  end
end

-- Find a slot for a label: in the pool with exactly this label; then in pools with shorter labels, longest first, down to two segments;
-- then in those with longer labels, fewest segments first. Among equals the smallest label by code point counts. A `*` segment of the
-- label stands for any one segment when wildcards are on. `take` finds a slot in a pool; without it that is `supply.take`. With
-- `among` only pools with free slots of these classes are worth a visit. Returns the slot as `supply.take` does, or nil.
function matching.find(label, take, among)
  local wild = turns.is_wild(label)
  take = take or supply.take
  return not wild and take(label) or matching.find_elsewhere(label, wild, take, among)
end

return matching
