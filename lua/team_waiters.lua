-- Waiters of teams: which ticket gets a slot of a pool for which there are rows. The team whose share is the least comes first, then the
-- label whose turn it is, then the first ticket that the slot suits.
local team_waiters = {}

-- Take a ticket out of the way that cannot be served: its record is lost, an older hub has served it, or its hub is gone.
local function clear(t, label, want, ticket, team)
  if t.label and redis.call('ZSCORE', keys.queue(label), ticket) then return tickets.set_aside(t, 'hub') end
  team_lines.leave(label, want, team, ticket)
  if t.label then return end
  lines.leave(label, want == '-' and '' or want, ticket)
  redis.call('ZREM', keys.queue(label), ticket)
end

-- Return the next ticket that may have a slot, and whether another one was taken out of the way, after which it is to be asked again.
local function look(policy, pool, class)
  local at = 0
  while true do
    local some, more = team_shares.next(policy, at)
    for _, team in ipairs(some) do
      local ticket, label, want
      if not teams.at_ceiling(policy, team) then ticket, label, want = team_tickets.of(team, pool, class) end
      if ticket then
        local t = tickets.read(ticket)
        if not (t.label and t.hub and redis.call('ZSCORE', keys.queue(label), ticket) and hubs.is_heard(t.hub)) then
          clear(t, label, want, ticket, team)
          return nil, true
        end
        t.label, t.want = label, want == '-' and '' or want
        return t, false
      end
    end
    if not more then return nil, false end
    at = at + #some
  end
end

-- Return what waiters.next returns, for a pool with rows.
function team_waiters.next(pool, class)
  for _ = 1, 200 do
    local t, again = look(teams.of(pool), pool, class)
    if not again then return t end
  end
end

-- Return whether a ticket that wants nothing in particular of a label could have a slot of a pool, as far as ceilings say.
function team_waiters.may_have(label, pool)
  local policy = teams.of(pool)
  if not policy then return true end
  for _, team in ipairs(redis.call('SMEMBERS', keys.line_teams(label))) do
    if not teams.at_ceiling(policy, team) and redis.call('ZSCORE', keys.team_wants(label .. '\t' .. team), '-') then return true end
  end
  return false
end

return team_waiters
