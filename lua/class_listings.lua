-- Listings of a class: what is listed under it when it comes, and forgotten when no slot has it any more.
local class_listings = {}

class_listings.AT_ONCE = 250  -- lines; each takes about 15 us

-- List under a class the labels that it suits of some 250 lines, from a cursor on, '0' at first: each key is written once. Returns the
-- cursor of the lines that are left, nil for none, and how many there were.
function class_listings.ask(class, cursor)
  local heads, members, listed = {}, {}, {}
  local function note(key, score, member)
    local of = members[key] or {}
    members[key], of[#of + 1], of[#of + 2] = of, score, member
  end
  local left, some_lines = unpack(redis.call('SSCAN', keys.all_lines, cursor, 'COUNT', class_listings.AT_ONCE))
  for _, line in ipairs(some_lines) do
    local label, want = string.match(line, '^(.*)\t(.*)$')
    local first = wants.suits(want, class) and redis.call('ZRANGE', keys.want_line(label .. ' ' .. want), 0, 0, 'WITHSCORES')
    if first and first[1] then
      note(keys.fitting(label .. ' ' .. class), first[2], want)
      if not heads[label] then heads[label], listed[#listed + 1] = true, label end
    end
  end
  for at = 1, #listed, 500 do
    local some = {unpack(listed, at, at + 499)}
    for i, turn in ipairs(redis.call('ZMSCORE', keys.turns, unpack(some))) do
      local capped = turn and caps.reached(some[i])
      if capped then redis.call('SADD', keys.parked(some[i]), class) end
      for _, place in ipairs(turn and not capped and listings.places(some[i]) or {}) do
        note(keys.fit(place .. ' ' .. class), turn, some[i])
      end
    end
  end
  for key, of in pairs(members) do
    for at = 1, #of, 1000 do redis.call('ZADD', key, unpack(of, at, math.min(#of, at + 999))) end
  end
  return left ~= '0' and left or nil, #some_lines
end

-- List under a class all labels that it suits.
function class_listings.ask_all(class)
  local cursor = '0'
  while cursor do cursor = class_listings.ask(class, cursor) end
end

-- Forget what is listed under a class that no slot has any more.
function class_listings.forget(class)
  local gone, seen = {}, {}
  local function note(key)
    if not seen[key] then seen[key], gone[#gone + 1] = true, key end
  end
  for _, line in ipairs(redis.call('SMEMBERS', keys.all_lines)) do
    local label = string.match(line, '^(.*)\t')
    local fitting = keys.fitting(label .. ' ' .. class)
    if not seen[fitting] then
      note(fitting)
      if store.has_caps then redis.call('SREM', keys.parked(label), class) end
      for _, place in ipairs(turns.stems(label)) do note(keys.fit(place .. ' ' .. class)) end
    end
  end
  note(keys.fit('* ' .. class))
  for at = 1, #gone, 1000 do redis.call('DEL', unpack(gone, at, math.min(#gone, at + 999))) end
end

-- List all labels anew, after the way in which labels and pools match has changed.
function class_listings.list_anew()
  for _, class in ipairs(store.matching and classes.all() or {}) do
    class_listings.forget(class)
    class_listings.ask_all(class)
  end
end

return class_listings
