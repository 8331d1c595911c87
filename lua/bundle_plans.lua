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
    return taken >= cells[i].room
  end
  local function is_under(i, caps_seen)
    for _, cap in ipairs(cells[i].caps) do
      if caps_seen[cap] then return true end
    end
  end
  local give
  -- Move a unit elsewhere, out of a cell or from under a cap. Returns whether that could be done.
  local function make_room(among, seen)
    for other = 1, #wish.units do
      if of[other] and among(of[other]) and give(other, seen) then return true end
    end
  end
  function give(u, seen)
    for i = 1, upto do
      if not seen[i] and cells[i].room > 0 and cells[i].suits[wish.units[u].part] and not is_under(i, seen) then
        seen[i] = true
        local fits = true
        for _, cap in ipairs(cells[i].caps) do
          if fits and (used[cap] or 0) >= cap.room then
            seen[cap] = true
            fits = make_room(function(other) return is_under(other, {[cap] = true}) end, seen)
          end
        end
        fits = fits and (not full(i) or make_room(function(other) return other == i end, seen))
        if fits then move(u, i) return true end
      end
    end
  end
  -- What was moved for one unit may make room for another.
  local again = (kept or store.has_served_caps or store.teams ~= '') and #cells or nil
  for _, some in ipairs({kept or #cells, again, again}) do
    upto = some
    for u = 1, #wish.units do
      if not of[u] and give(u, {}) then count = count + 1 end
    end
  end
  if count < #wish.units and not partly then return nil, count end
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

return bundle_plans
