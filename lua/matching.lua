-- Matching: which pools may serve a label.
local matching = {}

-- Return the first slot in pools of n segments whose labels begin with the segments `want`; nil for none. Pools are visited in order of
-- their labels, at most 5,000.
local function walk(n, want, wild)
  local function fits(label)
    local i = 0
    for segment in string.gmatch(label, '[^:]+') do
      i = i + 1
      if i > #want then return true end
      if want[i] ~= '*' and want[i] ~= segment then return false end
    end
    return true
  end
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
    local page = redis.call('ZRANGE', keys.open_pools(n), from, upto, 'BYLEX', 'LIMIT', 0, 100)
    for _, label in ipairs(page) do
      local found = (not wild or fits(label)) and supply.take(label)
      if found then return found end
    end
    if #page < 100 then return nil end
    from = '(' .. page[#page]
  end
end

-- Find a slot for a label in pools with other labels. `wild` is true where a `*` in the label stands for any segment.
function matching.find_elsewhere(label, wild)
  local want = {}
  for segment in string.gmatch(label, '[^:]+') do want[#want + 1] = segment end
  for n = wild and #want or #want - 1, store.trailing == '1' and 2 or #want, -1 do
    local part = {unpack(want, 1, n)}
    local stem = table.concat(part, ':')
    local starred = wild and string.find(':' .. stem .. ':', ':*:', 1, true)
    local found
    if starred then found = walk(n, part, true) else found = supply.take(stem) end
    if found then return found end
  end
  if store.prefix ~= '1' then return nil end
  for n = #want + 1, 8 do
    local found = walk(n, want, wild)
    if found then return found end
  end
end

-- Find a slot for a label: in the pool with exactly this label; then in pools with shorter labels, longest first, down to two segments;
-- then in those with longer labels, fewest segments first. Among equals the smallest label by code point counts. A `*` segment of the
-- label stands for any one segment when wildcards are on. Returns the slot as `supply.take` does, or nil.
function matching.find(label)
  local wild = turns.is_wild(label)
  return not wild and supply.take(label) or matching.find_elsewhere(label, wild)
end

return matching
