-- Plans of bundles: which cells give a bundle all that it wants. A cell is a supply of equal slots: pool, class (false for none), room (how
-- many there are), suits (as of bundle_wishes.suits), slot where it is this one, and caps: what limits several cells, as {room = ...}.
local bundle_plans = {}

-- Return a cell for each unit, so that no cell and no cap serves more units than it has room for; nil where there are not enough. With
-- `partly` as many units as can be have one, from the first `kept` cells as far as possible. The second value is how many have.
function bundle_plans.assign(wish, cells, partly, kept)
  local of, users, used, count, upto = {}, {}, {}, 0, nil
  local function move(u, i)
    for _, cap in ipairs(of[u] and cells[of[u]].caps or {}) do used[cap] = used[cap] - 1 end
    if of[u] then users[of[u]][u] = nil end
    of[u], users[i] = i, users[i] or {}
    users[i][u] = true
    for _, cap in ipairs(cells[i].caps) do used[cap] = (used[cap] or 0) + 1 end
  end
  local function full(i)
    local taken = 0
    for _ in pairs(users[i] or {}) do taken = taken + 1 end
    if taken >= cells[i].room then return true end
    for _, cap in ipairs(cells[i].caps) do
      if (used[cap] or 0) >= cap.room then return true end
    end
  end
  local function shares(i, other)
    if i == other then return true end
    for _, cap in ipairs(cells[i].caps) do
      for _, its in ipairs(cells[other].caps) do
        if cap == its then return true end
      end
    end
  end
  local function give(u, seen)
    for i = 1, upto do
      if not seen[i] and cells[i].suits[wish.units[u].part] then
        seen[i] = true
        for other = 1, full(i) and #wish.units or 0 do
          if other ~= u and of[other] and shares(i, of[other]) and give(other, seen) and not full(i) then break end
        end
        if not full(i) then move(u, i) return true end
      end
    end
  end
  for _, some in ipairs({kept or #cells, kept and #cells}) do
    upto = some
    for u = 1, #wish.units do
      if not of[u] and give(u, {}) then count = count + 1 end
      if not (of[u] or partly) then return nil, count end
    end
  end
  for u, i in pairs(of) do of[u] = cells[i] end
  return of, count
end

-- Return the label of a bundle under whose cap it cannot be lent as a whole, and the cap; nil for none. live(label) returns how many leases
-- the cap counts.
function bundle_plans.over_cap(wish, live)
  local counts = bundle_wishes.counts(wish)
  for label, count in pairs(store.has_caps and counts or {}) do
    local cap = caps.of(label)
    if cap > 0 and count + live(label) > cap then return label, cap end
  end
end

-- Return the number of the first part that has fewer cells than units in a plan, and how many it has; nil for none.
function bundle_plans.lacking(wish, of)
  local counts = {}
  for u, unit in ipairs(wish.units) do counts[unit.part] = (counts[unit.part] or 0) + (of[u] and 1 or 0) end
  for n, part in ipairs(wish.parts) do
    if counts[n] < part[5] then return n, counts[n] end
  end
end

return bundle_plans
