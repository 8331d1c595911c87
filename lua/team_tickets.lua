-- Tickets of a team: which one gets a slot.
local team_tickets = {}

-- Return the first ticket of a label and a team that a slot of a class suits, and what it wants ('-' for nothing); nil for none.
local function first_of(label, team, class)
  local index, at = keys.team_wants(label .. '\t' .. team), 0
  while true do
    local want, bound = unpack(redis.call('ZRANGE', index, at, at, 'WITHSCORES'))
    if not want then return nil end
    local ticket, score
    local suits = want == '-' or wants.suits(want, class)
    if suits then ticket, score = unpack(redis.call('ZRANGE', team_lines.of(label, want, team), 0, 0, 'WITHSCORES')) end
    if ticket and tonumber(score) <= tonumber(bound) then return ticket, want end
    if not suits then
      at = at + 1
    elseif ticket then
      redis.call('ZADD', index, score, want)
    else
      redis.call('ZREM', index, want)
    end
  end
end

-- Return the ticket of a team that gets a slot of a pool and a class, with its label and what it wants; nil for none.
function team_tickets.of(team, pool, class)
  if redis.call('EXISTS', keys.team_labels(team)) == 0 then return nil end
  local ticket, its_label, want, turn
  -- Consider the labels of an index in their turns: all that serve the pool, or this one alone.
  local function consider(place, only)
    local index, at = keys.team_under(place .. '\t' .. team), 0
    while true do
      local head = only and {only, redis.call('ZSCORE', index, only)} or redis.call('ZRANGE', index, at, at, 'WITHSCORES')
      local label, listed = head[1], tonumber(head[2] or nil)
      if not (label and listed) or (turn and listed >= turn) then return end
      local now = tonumber(redis.call('ZSCORE', keys.turns, label) or nil)
      if not now then
        redis.call('ZREM', index, label)
      elseif now > listed then
        redis.call('ZADD', index, now, label)
      elseif pools.serves(label, pool) and caps.reached(label) then
        redis.call('SADD', keys.team_parked(label), team)
        team_listings.list(label, team, nil)
      else
        local first, its_want
        if pools.serves(label, pool) then first, its_want = first_of(label, team, class) end
        if first then ticket, its_label, want, turn = first, label, its_want, now end
        if first or only then return end
        at = at + 1
      end
    end
  end
  consider(pool, store.trailing ~= '1' and pool or nil)
  if store.prefix == '1' then
    local head = string.match(pool, '^[^:]+')
    if head ~= pool then consider(head, head) end
    for _, stem in ipairs(turns.stems(pool)) do
      if stem ~= pool then consider(stem, stem) end
    end
  end
  if store.wildcards == '1' then consider('*', nil) end
  return ticket, its_label, want
end

return team_tickets
