-- Plans of bundles: which cells give a bundle all that it wants. A cell is a supply of equal slots: pool, class (false for none), room (how
-- many there are), suits (as of bundle_wishes.suits), and slot where it is this one.
local bundle_plans = {}

-- Return a cell for each unit, so that no cell serves more units than it has room for; nil where there are not enough. With `partly` as
-- many units as can be have one. The second value is how many have.
function bundle_plans.assign(wish, cells, partly)
  local of, users, count = {}, {}, 0
  local function give(u, seen)
    for i, cell in ipairs(cells) do
      if not seen[i] and cell.suits[wish.units[u].part] then
        seen[i], users[i] = true, users[i] or {}
        local at = #users[i] < cell.room and #users[i] + 1
        for n = 1, at and 0 or #users[i] do
          if give(users[i][n], seen) then at = n break end
        end
        if at then
          users[i][at], of[u] = u, cell
          return true
        end
      end
    end
  end
  for u = 1, #wish.units do
    if give(u, {}) then count = count + 1 elseif not partly then return nil, count end
  end
  return of, count
end

-- Return the label of a bundle under whose cap it cannot be lent as a whole, and the cap; nil for none. `ever`: also when nothing is lent.
function bundle_plans.over_cap(wish, ever)
  local counts = {}
  for _, unit in ipairs(store.has_caps and wish.units or {}) do counts[unit.label] = (counts[unit.label] or 0) + 1 end
  for label, count in pairs(counts) do
    local cap = caps.of(label)
    if cap > 0 and count + (ever and 0 or redis.call('ZCARD', keys.in_flight(label))) > cap then return label, cap end
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
