-- The figures of usage of each day, by user, team, label, slot and node.
local usage_days = {}

local DAY_MS = 86400000
local OTHER = 'other'  -- the name under which names beyond the bound of a day are counted
local KINDS = {'slot', 'node', 'label', 'team', 'user'}  -- in the order of the names in an entry

-- Add figures to those of five names on a day, in memory. added: day -> names, as an entry has them -> leases, ms held, waited and idle,
-- refusals. Most leases of a call have the same names as another, so names are taken apart once, by usage_days.by_kind.
local function add(added, day, names, leases, held, waited, idle, refusals)
  local of_day = added[day] or {}
  local sums = of_day[names] or {0, 0, 0, 0, 0}
  added[day], of_day[names] = of_day, sums
  sums[1], sums[2], sums[3] = sums[1] + leases, sums[2] + held, sums[3] + waited
  sums[4], sums[5] = sums[4] + idle, sums[5] + refusals
end

-- Add an ended lease, in memory. It counts on the day on which it began, and so does its wait. The time for which it was held, and of
-- that the time since its last activity, counts on each day for its part; a day that is no longer kept gets nothing.
function usage_days.add_lease(added, entry, days)
  local began, waited, over, active, names = string.match(entry, '^(%d+)|?(%d*)\31(%d+)\31(%d*)\31(.*)$')
  if not over then return end  -- no entry of the hub
  over, active = tonumber(over), tonumber(active)
  began = math.min(tonumber(began), over)
  active = active and math.max(began, math.min(over, active)) or over
  local first, last = math.floor(began / DAY_MS), math.floor(over / DAY_MS)
  for day = math.max(first, last - days + 1), last do
    local from, to = day * DAY_MS, math.min(over, (day + 1) * DAY_MS)
    local begins = day == first
    add(added, day, names, begins and 1 or 0, to - math.max(began, from), begins and tonumber(waited) or 0,
      math.max(0, to - math.max(active, from)), 0)
  end
end

-- Add borrows that were refused today, in memory: they have a label and perhaps a team and a user, and no slot and no node.
function usage_days.add_refusals(added, label, team, user, count)
  add(added, math.floor(store.now_ms / DAY_MS), table.concat({'', '', label, team, user}, '\31'), 0, 0, 0, 0, count)
end

-- Return what was added in memory by kind: day and kind -> name -> figures. A foreign name may have a separator in it: then it is not
-- known which name is which, and the figures are those of `other`.
function usage_days.by_kind(added)
  local found = {}
  for day, of_day in pairs(added) do
    for joined, sums in pairs(of_day) do
      local names = {}
      for name in string.gmatch(joined .. '\31', '([^\31]*)\31') do names[#names + 1] = name end
      for i, kind in ipairs(KINDS) do
        local id, name = numbers.whole(day) .. ':' .. kind, #names == 5 and names[i] or OTHER
        found[id] = found[id] or {}
        local of_name = found[id][name] or {0, 0, 0, 0, 0}
        found[id][name] = of_name
        for figure = 1, 5 do of_name[figure] = of_name[figure] + sums[figure] end
      end
    end
  end
  return found
end

-- Return figures as the text of a field.
function usage_days.text(sums) return string.format('%d %d %d %d %d', unpack(sums)) end

-- Write what was added in memory to the figures of the days. A name beyond `most` of a day and kind is counted as 'other'.
function usage_days.write(added, days, most)
  for id, names in pairs(usage_days.by_kind(added)) do
    local key = keys.usage_day(id)
    local new = lenient.call(nil, 'HLEN', key)
    for name, sums in pairs(new and names or {}) do
      local before = redis.call('HGET', key, name)
      if not before and name ~= OTHER and new >= most then name, before = OTHER, redis.call('HGET', key, OTHER) end
      if not before and name ~= OTHER then new = new + 1 end
      local i = 0
      for text in string.gmatch(before or '', '%d+') do i, sums[i + 1] = i + 1, sums[i + 1] + tonumber(text) end
      redis.call('HSET', key, name, usage_days.text(sums))
    end
    redis.call('EXPIREAT', key, (tonumber(string.match(id, '^%d+')) + 1 + days) * DAY_MS / 1000)
  end
end

return usage_days
