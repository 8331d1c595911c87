-- Nodes of bundles whose slots are to be on one node.
local bundle_nodes = {}

local MOST = 256  -- slots that are looked at in one call; the next call begins at another place

-- Count the nodes of slots: {part of a node, ...}, most slots first, at most 64; and how many slots each has.
local function count(slots_seen)
  local counts, order = {}, {}
  call_state.left_to_look = call_state.left_to_look - #slots_seen
  for _, slot in ipairs(slots_seen) do
    local part = redis.call('HGET', keys.slot(slot), 'part')
    if part and not counts[part] then counts[part], order[#order + 1] = 0, part end
    if part then counts[part] = counts[part] + 1 end
  end
  table.sort(order, function(a, b) return counts[a] > counts[b] or (counts[a] == counts[b] and numbers.below(a, b)) end)
  return {unpack(order, 1, 64)}, counts
end

-- Return the part of a bundle with the most units.
local function largest(wish)
  local found = wish.parts[1]
  for _, part in ipairs(wish.parts) do
    if part[5] > found[5] then found = part end
  end
  return found
end

-- Return the nodes that may have enough free slots for a bundle, those with the most first.
function bundle_nodes.free(wish)
  local seen, whole, part = {}, true, largest(wish)
  matching.find(part[1], function(pool)
    local length = redis.call('LLEN', keys.available(pool))
    local from = length > MOST and store.now_us % (length - MOST + 1) or 0
    for _, item in ipairs(redis.call('LRANGE', keys.available(pool), from, from + MOST - 1 - #seen)) do
      seen[#seen + 1] = items.glance(item) or ''
    end
    whole = whole and length <= MOST and #seen < MOST
    return #seen >= MOST
  end)
  local order, counts = count(seen)
  while whole and order[1] and counts[order[#order]] < part[5] do order[#order] = nil end
  return order
end

-- Return the nodes that have enough published slots for a bundle and lend at present, at most 64; whether all were looked at; and how
-- many nodes have such slots.
function bundle_nodes.published(wish)
  local seen, whole, fit = {}, true, {}
  published_pools.each(largest(wish)[1], function(pool)
    local key = keys.pool_slots(pool)
    whole = whole and redis.call('SCARD', key) <= MOST - #seen
    for _, slot in ipairs(redis.call('SRANDMEMBER', key, MOST - #seen)) do seen[#seen + 1] = slot end
    return #seen >= MOST
  end)
  local order = count(seen)
  for _, part in ipairs(order) do
    if call_state.left_to_look <= 0 then whole = false break end
    local enough = not drains.holds_back(part) and bundle_plans.assign(wish, bundle_cells.of_node(wish, part, true))
    if enough then fit[#fit + 1] = part end
  end
  return fit, whole and #order < 64, #order
end

return bundle_nodes
