-- Needs of teams: what they lack of their guarantees while their tickets wait.
local team_needs = {}

-- Call a function with each line of a team that a pool of a policy may serve: label, want, key.
local function each_line(policy, team, visit)
  team_lines.each(team, function(label, want, key)
    if team_listings.concerns(policy, label) then visit(label, want, key) end
  end)
end

-- Return how many tickets of a team wait for what pools of a policy serve.
function team_needs.waiting(policy, team)
  local names, count = {}, 0
  each_line(policy, team, function(_, _, key) names[#names + 1], count = key, count + redis.call('ZCARD', key) end)
  if #names < 2 or #names > 1000 or count > 2000 then return count end
  return #redis.call('ZUNION', #names, unpack(names))  -- a ticket with alternatives stands in several
end

-- Return for how many tickets of a label the cap of the label has room.
local function room_of(label)
  local cap = caps.of(label)
  return cap > 0 and cap - caps.taken(label) or math.huge
end

-- Return the teams that lack something of their guarantees and wait, the emptiest first: {team, missing, lines: {label, want, key}, rooms,
-- served}. rooms: label -> for how many tickets its cap has room yet; served: ticket -> true where there is a lease for it; both for all.
function team_needs.lacking(policy, rooms, served)
  local found = {}
  for team, row in pairs(policy.rows) do
    local held = row.guarantee > 0 and teams.held(policy, team) + (row.ceiling and teams.kept(policy, team) or 0) or 0
    if held < row.guarantee and redis.call('EXISTS', keys.team_labels(team)) == 1 then
      local each = {team = team, missing = row.guarantee - held, share = held / row.guarantee, lines = {}, rooms = rooms, served = served}
      each_line(policy, team, function(label, want, key)
        rooms[label] = rooms[label] or room_of(label)
        each.lines[#each.lines + 1] = {label = label, want = want, key = key}
      end)
      found[#found + 1] = each
    end
  end
  table.sort(found, function(a, b) return a.share < b.share or (a.share == b.share and numbers.below(a.team, b.team)) end)
  return found
end

-- Call `find` for the tickets of a line, as long as the team lacks any and `find` returns that there is a lease for the ticket.
local function provide_in(each, line, find)
  local at = 0
  while true do
    local page = redis.call('ZRANGE', line.key, at, at + 63)
    for _, ticket in ipairs(page) do
      if each.missing == 0 or each.rooms[line.label] <= 0 then return end
      if not each.served[ticket] then
        if not find(line) then return end
        each.served[ticket], each.missing = true, each.missing - 1
        each.rooms[line.label] = each.rooms[line.label] - 1
      end
    end
    if not page[64] then return end
    at = at + 64
  end
end

-- Do so for all lines of a team. With `in_turn` this begins with another line in each second: a call may end before the last.
function team_needs.provide(each, find, in_turn)
  local count, first = #each.lines, in_turn and math.floor(store.clock_ms / 1000) or 0
  for n = 1, each.missing > 0 and count or 0 do provide_in(each, each.lines[(n + first - 1) % count + 1], find) end
end

return team_needs
