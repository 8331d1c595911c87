-- The reserver: a bundle that has waited for too long. Slots that it needs are set aside for it until it has all. There is one at most, so
-- that no two bundles wait for each other.
local reserver = {}

local AWAY_MS = 5000  -- how long a caller that asks again and again may be away: clients ask again within a second or two

-- Return the reserver as tickets.read does, with `node`, the node on which its slots are to be, or '', `reserves_since_ms`, on the hub
-- clock, and `is_away`, whether no call of its caller waits; nil while there is none.
function reserver.now()
  local ticket, node, since_ms, away_ms = unpack(redis.call('HMGET', keys.reserver, 'ticket', 'node', 'since_ms', 'away_ms'))
  if not ticket then return nil end
  local t = tickets.read(ticket)
  local is_here = t.wish and redis.call('ZSCORE', keys.bundles, ticket)
  t.is_away = t.wish and not is_here and away_ms and store.clock_ms - tonumber(away_ms) <= AWAY_MS
  if not (is_here or t.is_away) then bundle_line.end_reserve() return nil end
  t.node, t.reserves_since_ms, t.wish.reserves = node or '', tonumber(since_ms), true
  return t
end

-- Return the slot of a record that is in no list; nil unless it may be lent now. A slot of a suspect node is held back as such.
local function good(slot)
  local item, pool, node, part, own_idle_ms, reported, place, class = unpack(redis.call('HMGET', keys.slot(slot), 'item', 'pool', 'node',
    'part', 'idle_ms', 'reported', 'place', 'class'))
  if place ~= 'held' or held_slots.has_reason(slot, part) then return nil end
  if suspects.is_suspect(node, part, reported) then suspects.hold_aside(slot, part, node) return nil end
  return {slot = slot, item = item, pool = pool, node = node, part = part, own_idle_ms = own_idle_ms, reported = reported, class = class,
    token = false, label = false, run = false, holder = false, ttl_ms = false, idle_ms = false, listed = false}
end

-- Return the cells of what is set aside and may be lent to the reserver. What is held for another reason is set aside no longer.
function reserver.kept(t)
  local cells = {}
  for _, slot in ipairs(redis.call('SMEMBERS', keys.reserved)) do
    local found = good(slot)
    local pool, class = found and found.pool, found and found.class
    local is_there = found and (t.node == '' or t.node == found.part)  -- it may have begun anew on another node
    local suits = is_there and not pools.under_maintenance(pool) and bundle_wishes.suits(t.wish, pool, class)
    if suits then
      cells[#cells + 1] = bundle_limits.aside(t, {pool = pool, class = class, slot = slot, suits = suits, room = 1, found = found})
    elseif not found then
      reserved_slots.drop(slot)
    end
  end
  return cells
end

-- Lend the reserver what is set aside, if that is all of it. Where a cap stands in the way, room under it is kept.
function reserver.complete(t, cells)
  if t.is_away or store.settle_left_ms > 0 or bundle_plans.over_cap(t.wish, caps.live) then return end
  if not bundle_plans.assign(t.wish, cells) then return end
  local known = {}
  for _, cell in ipairs(cells) do cell.caps = bundle_limits.of(cell.pool, bundle_limits.live(t.wish), known, t.wish.team) end
  local of = bundle_plans.assign(t.wish, cells)
  if not of then return end
  local found = {}
  for u, cell in ipairs(of) do found[u] = cell.found end
  bundle_handoffs.hand_on(t, found)
end

-- Set a slot aside that is in no list, if the reserver can use it. Returns 'lent' where that completes the bundle, 'held', or nil where the
-- reserver cannot use it.
function reserver.take(slot, pool, class, part)
  local t = reserver.now()
  if not t or (t.node ~= '' and t.node ~= part) or not hubs.is_heard(t.hub) then return nil end
  local suits = not pools.under_maintenance(pool) and bundle_wishes.suits(t.wish, pool, class)
  if not suits then return nil end
  local cells = reserver.kept(t)
  local _, before = bundle_plans.assign(t.wish, cells, true)
  redis.call('HSET', keys.slot(slot), 'place', 'held')
  local found = good(slot)
  if not found then return 'held' end
  cells[#cells + 1] = bundle_limits.aside(t, {pool = pool, class = class, slot = slot, suits = suits, room = 1, found = found})
  local _, after = bundle_plans.assign(t.wish, cells, true)
  if after == before then return nil end
  redis.call('SADD', keys.reserved, slot)
  reserver.complete(t, cells)
  return redis.call('HGET', keys.slot(slot), 'place')
end

return reserver
