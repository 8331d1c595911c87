-- Supply of bundles: taking all slots of a bundle out of their lists, or none.
local bundle_supply = {}

-- Take the slots of a plan, the ones that must be of a class first. Returns them by unit, false for one that was not there, and whether
-- all are.
function bundle_supply.take(wish, of)
  local found, whole = {}, true
  for _, last in ipairs({false, true}) do
    for u, unit in ipairs(wish.units) do
      local cell = of[u]
      if cell and last == (unit.want == '' and not cell.slot) then
        if cell.slot then
          found[u] = choosing.take(cell.pool, cell.slot) or false
          if not found[u] then wish.missing[cell.slot] = true end
        elseif unit.want ~= '' then
          found[u] = choosing.of_classes(cell.pool, {cell.class}) or false
        else
          found[u] = supply.take(cell.pool) or false
        end
        whole = whole and found[u]
      end
    end
  end
  return found, whole
end

-- Take slots for all units by a plan; nil, and all are put back, where another program has taken one or its node is suspect.
local function take_all(wish, of)
  call_state.sets_aside = wish.reserves  -- the room that is kept for it does not stand in its way
  local found, whole = bundle_supply.take(wish, of)
  call_state.sets_aside = nil
  if whole then return found end
  for u = #wish.units, 1, -1 do
    if found[u] then supply.give_up(found[u]) end
  end
end

-- Take free slots for all units of a bundle; nil where there are not enough, or a cap stands in the way, and how many it lacks at least, if
-- that is known. `part` is set where only the slots of this node can be new to a bundle that is to be on one node.
function bundle_supply.find(wish, part)
  wish.unsure = nil
  if store.settle_left_ms > 0 or bundle_plans.over_cap(wish, wish.reserves and caps.live or caps.taken) then return nil end
  for _ = 1, 3 do  -- a slot that another program has taken is not planned with again
    local of, count
    if wish.same_node then
      for _, node in ipairs(part and {part} or bundle_nodes.free(wish)) do
        of = bundle_plans.assign(wish, bundle_cells.of_node(wish, node))
        if of or call_state.left_to_look <= 0 then break end
      end
    else
      of, count = bundle_plans.assign(wish, bundle_cells.free(wish))
    end
    local found = of and take_all(wish, of)
    if found or not of then return found, count and not wish.unsure and #wish.units - count or nil end
  end
end

return bundle_supply
