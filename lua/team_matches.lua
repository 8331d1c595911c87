-- Matches: which slots that come back are for which tickets of teams that lack their guarantee. state is what one call knows: known (as of
-- team_leases.recalled) and first (before it all are used), spare (team -> leases that it may yet lose), done (slot -> true), groups
-- (team -> its leases by kind), leases and pairs (how many of each it may yet look at).
local team_matches = {}

-- Return whether a slot of a pool and a class suits a line.
function team_matches.suits(state, line, pool, class)
  state.pairs = state.pairs - 1
  return pools.serves(line.label, pool) and (line.want == '-' or wants.suits(line.want, class))
end

-- Note that a slot is for a ticket of a line. The slots whose leases end with its lease are there for others.
function team_matches.use(state, each, line)
  each.line = line
  for _, slot in ipairs(each.tied or {}) do
    state.done[slot] = true
    local pool, class = unpack(redis.call('HMGET', keys.slot(slot), 'pool', 'class'))
    if slot ~= each.slot then state.known[#state.known + 1] = {slot = slot, pool = pool, class = class} end
  end
  if each.team then state.spare[each.team] = state.spare[each.team] - #each.tied end
  return true
end

-- Call a function with the line of each slot that comes back, suits a line, and is for another one, until it returns true; each once.
function team_matches.change(state, line, tried, visit)
  for _, each in ipairs(state.known) do
    if each.line and each.line ~= line and not tried[each] and team_matches.suits(state, line, each.pool, each.class) then
      tried[each] = true
      if visit(each.line, tried) then each.line = line return true end
    end
  end
end

-- Find a slot that comes back already for a ticket of a line; others may have to change theirs for that. Returns whether there is one.
function team_matches.known(policy, state, line, tried)
  while state.known[state.first] and state.known[state.first].line do state.first = state.first + 1 end
  for n = state.first, #state.known do
    local each = state.known[n]
    local ends = each.team and not state.done[each.slot] and team_leases.above(policy, each.team, state.spare) >= #each.tied
    local is_open = not each.line and (ends or not each.team) and team_matches.suits(state, line, each.pool, each.class)
    if is_open then return team_matches.use(state, each, line) end
  end
  return team_matches.change(state, line, tried or {}, function(other, seen) return team_matches.known(policy, state, other, seen) end)
end

-- Return the newest lease among some of a team that suits a line and may be recalled, as `use` takes it; nil for none.
local function newest_among(policy, state, team, line, groups)
  local best, best_rank
  for _, group in ipairs(groups) do
    while group.slots[group.first] and state.done[group.slots[group.first][1]] do group.first = group.first + 1 end
    for n = group.first, team_matches.suits(state, line, group.pool, group.class) and #group.slots or 0 do
      local slot, rank = unpack(group.slots[n])
      if best and rank > best_rank then break end
      local tied = not state.done[slot] and team_leases.comes_back(slot, group.pool)
        and team_leases.tied(policy, slot, redis.call('HGET', keys.slot(slot), 'holder'))
      if not tied then state.done[slot] = true elseif team_leases.above(policy, team, state.spare) >= #tied then
        best, best_rank = {slot = slot, pool = group.pool, class = group.class, team = team, tied = tied}, rank
        break
      end
    end
  end
  return best
end

-- Return the newest such lease of a team.
function team_matches.newest(policy, state, team, line)
  local groups = state.groups[team] or {at = 0}
  state.groups[team] = groups
  while true do
    local found = newest_among(policy, state, team, line, groups)
    if found or state.leases <= 0 then return found end
    local count = team_leases.read_on(policy, team, groups)
    state.leases = state.leases - count
    if count == 0 then return nil end
  end
end

return team_matches
