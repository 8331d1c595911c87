-- Cells of bundles: the slots that a bundle may have, free or published, by pool and class, or one by one on a node. What is looked at is
-- taken from call_state.left_to_look; wish.unsure says that it was not all.
local bundle_cells = {}

-- Return the cells that a walk over pools finds. walk(label, want, visit) visits those that may serve a part; counts(pool) returns how many
-- slots there are, and {class, how many, ...}; live: as of bundle_limits.of.
local function gather(wish, walk, counts, live)
  local cells, known, limits, stocks = {}, {}, {}, {}
  local function add(pool, class, count, part)
    local name, caps_above = pool .. ' ' .. (class or ''), bundle_limits.of(pool, live, limits, wish.team)
    local cell = known[name] or {pool = pool, class = class, suits = {}, room = count, caps = caps_above}
    if not known[name] then known[name], cells[#cells + 1] = cell, cell end
    cell.suits[part] = true
    return caps_above[1] and 0 or math.max(0, cell.room)  -- a cap may leave less, so more pools are visited
  end
  for n, part in ipairs(wish.parts) do
    local want, found = part[2], 0
    if wish.unsure then break end
    walk(part[1], want, function(pool)
      wish.unsure = wish.unsure or (not stocks[pool] and call_state.left_to_look <= 0)
      if wish.unsure then return true end
      stocks[pool] = stocks[pool] or {counts(pool)}
      local others, by_class = unpack(stocks[pool])
      call_state.left_to_look = call_state.left_to_look - 1 - #by_class / 8
      for i = 1, #by_class, 2 do
        others = others - tonumber(by_class[i + 1])
        if want == '' or wants.suits(want, by_class[i]) then found = found + add(pool, by_class[i], tonumber(by_class[i + 1]), n) end
      end
      if want == '' then found = found + add(pool, false, others, n) end
      return found >= #wish.units
    end)
  end
  return cells
end

-- Return the cells of the free slots, as many as the bundle may need of each part.
function bundle_cells.free(wish)
  local function walk(label, want, visit)
    local among = want ~= '' and classes.suiting(want) or nil
    call_state.left_to_look = call_state.left_to_look - (among and #among or 1)
    matching.find(label, visit, among)
  end
  return gather(wish, walk, function(pool)
    if pools.under_maintenance(pool) then return 0, {} end
    local by_class = {}
    for _, class in ipairs(store.matching and redis.call('ZRANGE', keys.free_classes(pool), 0, -1) or {}) do
      by_class[#by_class + 1], by_class[#by_class + 2] = class, redis.call('ZCARD', keys.free_in(pool .. ' ' .. class))
    end
    return redis.call('LLEN', keys.available(pool)), by_class
  end, bundle_limits.live(wish))
end

-- Return the cells of the slots that are published.
function bundle_cells.published(wish, live)
  return gather(wish, function(label, _, visit) published_pools.each(label, visit) end, function(pool)
    return redis.call('SCARD', keys.pool_slots(pool)), store.matching and redis.call('HGETALL', keys.pool_classes(pool)) or {}
  end, live)
end

-- Return the cells of the slots of a node: the free ones, or with `all` those that are published, with the caps for which `live` counts. Of
-- a node with more than 256 slots as many are looked at. Those in wish.missing are left out.
function bundle_cells.of_node(wish, part, all, live)
  local cells, known, slots_there = {}, {}, redis.call('SRANDMEMBER', keys.node_slots(part), 256)
  if not all then live = bundle_limits.live(wish) end
  table.sort(slots_there)
  for _, slot in ipairs(slots_there) do
    call_state.left_to_look = call_state.left_to_look - 3
    local place, pool, class, node, reported = unpack(redis.call('HMGET', keys.slot(slot), 'place', 'pool', 'class', 'node', 'reported'))
    local suits = pool and (all or place == 'free') and bundle_wishes.suits(wish, pool, class)
    local out = suits and not all and (wish.missing[slot] or pools.under_maintenance(pool) or suspects.is_suspect(node, part, reported))
    if suits and not out then
      cells[#cells + 1] = {pool = pool, class = class, slot = slot, suits = suits, room = 1,
        caps = bundle_limits.of(pool, live, known, wish.team)}
    end
  end
  return cells
end

return bundle_cells
