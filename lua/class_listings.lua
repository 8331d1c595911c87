-- Listings of a class: what is listed under it when it comes, and forgotten when no slot has it any more.
local class_listings = {}

-- Call a function with each label and want that tickets have.
local function each_line(visit)
  for _, line in ipairs(redis.call('SMEMBERS', keys.all_lines)) do visit(string.match(line, '^(.*)\t(.*)$')) end
end

-- List under a new class all labels that it suits: each key is written once, as there may be many.
function class_listings.ask(class)
  local heads, members, listed = {}, {}, {}
  local function note(key, score, member)
    local of = members[key] or {}
    members[key], of[#of + 1], of[#of + 2] = of, score, member
  end
  each_line(function(label, want)
    local first = wants.suits(want, class) and redis.call('ZRANGE', keys.want_line(label .. ' ' .. want), 0, 0, 'WITHSCORES')
    if first and first[1] then
      note(keys.fitting(label .. ' ' .. class), first[2], want)
      if not heads[label] then heads[label], listed[#listed + 1] = true, label end
    end
  end)
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
end

-- Forget what is listed under a class that no slot has any more.
function class_listings.forget(class)
  local seen = {}
  each_line(function(label)
    if seen[label] then return end
    seen[label] = true
    redis.call('SREM', keys.parked(label), class)
    if redis.call('DEL', keys.fitting(label .. ' ' .. class)) == 0 then return end
    listings.unlist(label, class)
  end)
end

-- List all labels anew, after the way in which labels and pools match has changed.
function class_listings.list_anew()
  for _, class in ipairs(store.matching and classes.all() or {}) do
    class_listings.forget(class)
    class_listings.ask(class)
  end
end

return class_listings
