-- Cells of bundles: the slots that a bundle may have, free or published, by pool and class, or one by one on a node.
local bundle_cells = {}

-- Return how many more leases the caps on what is served let a pool serve, at most `most`; `spent` is what cells before may take of each.
function bundle_cells.room_of(pool, most, spent)
  local caps_above = store.has_served_caps and served_caps.above(pool) or {}
  for _, each in ipairs(caps_above) do
    most = math.min(most, each[2] - redis.call('SCARD', keys.served(each[1])) - (spent[each[1]] or 0))
  end
  for _, each in ipairs(caps_above) do spent[each[1]] = (spent[each[1]] or 0) + math.max(0, most) end
  return math.max(0, most)
end

-- Return the cells that a walk over pools finds. walk(label, want, visit) visits those that may serve a part; counts(pool) returns how many
-- slots there are, and {class, how many, ...}; room(pool, count) returns how many of them may be used.
local function gather(wish, walk, counts, room)
  local cells, known = {}, {}
  local function add(pool, class, count, part)
    local name = pool .. ' ' .. (class or '')
    local cell = known[name] or {pool = pool, class = class, suits = {}, room = room(pool, math.min(count, #wish.units))}
    if not known[name] then known[name], cells[#cells + 1] = cell, cell end
    cell.suits[part] = true
    return cell.room
  end
  for n, part in ipairs(wish.parts) do
    local want, found = part[2], 0
    walk(part[1], want, function(pool)
      local others, by_class = counts(pool)
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
  local spent = {}
  local function walk(label, want, visit) matching.find(label, visit, want ~= '' and classes.suiting(want) or nil) end
  return gather(wish, walk, function(pool)
    if pools.under_maintenance(pool) then return 0, {} end
    local by_class = {}
    for _, class in ipairs(store.matching and redis.call('ZRANGE', keys.free_classes(pool), 0, -1) or {}) do
      by_class[#by_class + 1], by_class[#by_class + 2] = class, redis.call('ZCARD', keys.free_in(pool .. ' ' .. class))
    end
    return redis.call('LLEN', keys.available(pool)), by_class
  end, function(pool, count) return bundle_cells.room_of(pool, count, spent) end)
end

-- Return the cells of the slots that are published.
function bundle_cells.published(wish)
  return gather(wish, function(label, _, visit) published_pools.each(label, visit) end, function(pool)
    return redis.call('SCARD', keys.pool_slots(pool)), store.matching and redis.call('HGETALL', keys.pool_classes(pool)) or {}
  end, function(_, count) return count end)
end

-- Return the cells of the slots of a node: the free ones, or with `all` those that are published. Of a node with more than 256 slots as
-- many are looked at. Those in wish.missing are left out.
function bundle_cells.of_node(wish, part, all)
  local cells, spent, shut = {}, {}, {}
  local some = redis.call('SRANDMEMBER', keys.node_slots(part), 256)
  call_state.left_to_look = call_state.left_to_look - #some
  for _, slot in ipairs(some) do
    local place, pool, class, node, reported = unpack(redis.call('HMGET', keys.slot(slot), 'place', 'pool', 'class', 'node', 'reported'))
    local suits = pool and (all or place == 'free') and bundle_wishes.suits(wish, pool, class)
    if suits and not all then
      if shut[pool] == nil then shut[pool] = pools.under_maintenance(pool) end
      local out = shut[pool] or wish.missing[slot] or suspects.is_suspect(node, part, reported)
      if out or bundle_cells.room_of(pool, 1, spent) < 1 then suits = nil end
    end
    if suits then cells[#cells + 1] = {pool = pool, class = class, slot = slot, suits = suits, room = 1} end
  end
  return cells
end

return bundle_cells
