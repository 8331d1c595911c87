-- Matching: which pools may serve a label.
local matching = {}

-- The first slot in the pools of n segments that begin with `want`. Pools are visited in order, at most 5,000.
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
    from, upto = '[' .. lead .. ':', '(' .. lead .. ';'  -- ';' follows ':'
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

-- The same in the pools of other labels.
local function find_elsewhere(label, wild)
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

local function is_wild(label)
  return store.wildcards == '1' and string.find(label, '*', 1, true) and string.find(':' .. label .. ':', ':*:', 1, true) ~= nil
end

-- Find a slot for a requested label: the exact pool; shorter ones, longest first, down to two segments; longer ones,
-- fewest segments first. Among equals the smallest label by code point. A `*` segment of the request stands for any
-- one segment when wildcards are on.
function matching.find(label)
  local wild = is_wild(label)
  return not wild and supply.take(label) or find_elsewhere(label, wild)
end

-- The same for an attempt of which nothing is known; nil also when something is. A slot of the exact pool is in the in-use
-- list then, as `listed` says.
function matching.find_at_once(label, attempt)
  local wild = is_wild(label)
  local exact, empty
  if not wild then exact, empty = supply.take_at_once(label, attempt) end
  if exact then return exact end
  if redis.call('EXISTS', keys.request(attempt)) == 1 then return nil end
  if empty then pools.close(label) end
  return not (wild or empty) and supply.take(label) or find_elsewhere(label, wild)
end

return matching
