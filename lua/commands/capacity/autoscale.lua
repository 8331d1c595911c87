-- Read what an autoscaler needs to know of a pool: its slots, and the waiters that it may serve, under all labels that they asked for.
-- Under a label with a cap only as many waiters count as the cap leaves room for: more slots would not help the others. At most `limit`
-- labels that begin with that of the pool, and as many labels with `*`, are looked at; for each further label that begins with that of
-- the pool one waiter is counted, the least there can be. With a want only slots that suit it count, and waiters that such a slot suits;
-- of more than 2,000 slots those count as lent that are not free. Changes nothing.
-- Returns {free slots, lent, published, 1 | 0 (under maintenance), waiters, labels with waiters, 1 | 0 (there may be more)}
command.read('capacity/autoscale', {
  'pool',
  'limit: number',  -- most labels that are looked at
  'want',           -- '' for all slots
  'tree',           -- what it says, as JSON
}, function(a)
  local amounts, waiting, labels, more = {}, 0, 0, 0
  local function add(label, line) amounts[label] = (amounts[label] or 0) + redis.call('ZCARD', line) end
  if a.want ~= '' then wants.learn(a.want, a.tree) end

  local function add_plain()
    local from = store.trailing == '1' and redis.call('ZRANGE', keys.under(a.pool), 0, a.limit - 1) or {}
    if store.trailing == '1' then
      local rest = redis.call('ZCARD', keys.under(a.pool)) - a.limit
      if rest > 0 then waiting, labels, more = rest, rest, 1 end
    elseif redis.call('ZSCORE', keys.under(a.pool), a.pool) then
      from = {a.pool}
    end
    for _, stem in ipairs(store.prefix == '1' and turns.stems(a.pool) or {}) do
      if stem ~= a.pool and redis.call('ZSCORE', keys.under(stem), stem) then from[#from + 1] = stem end
    end
    for _, label in ipairs(store.wildcards == '1' and redis.call('ZRANGE', keys.wild, 0, a.limit - 1) or {}) do
      if pools.wild_serves(label, a.pool) then from[#from + 1] = label end
    end
    if store.wildcards == '1' and redis.call('ZCARD', keys.wild) > a.limit then more = 1 end
    for _, label in ipairs(from) do add(label, turns.plain(label)) end
  end

  -- Whether a slot that suits the want of the call may suit another want as well.
  local function meets(want)
    if a.want == '' or want == a.want then return true end
    for _, class in ipairs(classes.suiting(a.want)) do
      if wants.suits(want, class) then return true end
    end
  end

  if turns.anybody() then
    add_plain()
    for _, line in ipairs(store.matching and redis.call('SMEMBERS', keys.all_lines) or {}) do
      local label, want = string.match(line, '^(.*)\t(.*)$')
      if pools.serves(label, a.pool) and meets(want) then add(label, lines.key_of(label, want)) end
    end
  end
  for _, ticket in ipairs(store.bundles and redis.call('ZRANGE', keys.bundles, 0, a.limit - 1) or {}) do
    local wish = tickets.read(ticket).wish
    for _, part in ipairs(wish and wish.parts or {}) do
      if pools.serves(part[1], a.pool) and meets(part[2]) then amounts[part[1]] = (amounts[part[1]] or 0) + part[5] end
    end
  end
  for label, live in pairs(amounts) do
    local cap = caps.of(label)
    if cap > 0 then live = math.min(live, cap - redis.call('ZCARD', keys.in_flight(label))) end
    waiting, labels = waiting + math.max(0, live), labels + 1
  end
  local maintenance = redis.call('EXISTS', keys.maintenance(a.pool))
  if a.want ~= '' then
    local free, lent, published = free_slots.count(a.pool, a.want)
    return {free, lent, published, maintenance, waiting, labels, more}
  end
  return {redis.call('LLEN', keys.available(a.pool)), redis.call('LLEN', keys.inuse(a.pool)),
    redis.call('SCARD', keys.pool_slots(a.pool)), maintenance, waiting, labels, more}
end)
