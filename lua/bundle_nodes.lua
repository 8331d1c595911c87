-- Nodes of bundles whose slots are to be on one node.
local bundle_nodes = {}

local MOST = 256  -- slots that are looked at in one call; the next call begins at another place

-- Count the nodes of those slots that suit a bundle: {part of a node, ...}, most slots first; and how many slots each has.
local function count(wish, slots_seen)
  local counts, order = {}, {}
  call_state.left_to_look = call_state.left_to_look - #slots_seen
  for _, slot in ipairs(slots_seen) do
    local part, pool, class = unpack(redis.call('HMGET', keys.slot(slot), 'part', 'pool', 'class'))
    if part and bundle_wishes.suits(wish, pool, class) then
      if not counts[part] then counts[part], order[#order + 1] = 0, part end
      counts[part] = counts[part] + 1
    end
  end
  table.sort(order, function(a, b) return counts[a] > counts[b] or (counts[a] == counts[b] and numbers.below(a, b)) end)
  return order, counts
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
  local order, counts = count(wish, seen)
  while whole and order[1] and counts[order[#order]] < part[5] do order[#order] = nil end
  local turned, first = {}, #order > 16 and store.now_us % #order or 0  -- not all are looked at: the next call begins with another
  for i = 1, #order do turned[i] = order[(first + i - 1) % #order + 1] end
  return turned
end

-- Return the nodes that have enough published slots for a bundle, under the caps for which `live` counts, if that is given: then also only
-- those that lend at present. The second value is whether all were looked at, the third how many have such slots.
function bundle_nodes.published(wish, live)
  local seen, whole, fit = {}, true, {}
  published_pools.each(largest(wish)[1], function(pool)
    local key = keys.pool_slots(pool)
    whole = whole and redis.call('SCARD', key) <= MOST - #seen
    for _, slot in ipairs(redis.call('SRANDMEMBER', key, MOST - #seen)) do seen[#seen + 1] = slot end
    return #seen >= MOST
  end)
  local order = count(wish, seen)
  for _, part in ipairs(order) do
    if call_state.left_to_look <= 0 then return fit, false, #order end
    whole = whole and redis.call('SCARD', keys.node_slots(part)) <= MOST
    local lends = not live or not drains.holds_back(part)
    if lends and bundle_plans.assign(wish, bundle_cells.of_node(wish, part, true, live)) then fit[#fit + 1] = part end
  end
  return fit, whole, #order
end

return bundle_nodes
