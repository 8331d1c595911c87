-- Read what an autoscaler needs to know of a pool: its slots, and the waiters that it may serve, under all labels that they asked for.
-- Under a label with a cap only as many waiters count as the cap leaves room for: more slots would not help the others. At most `limit`
-- labels that begin with that of the pool, and as many labels with `*`, are looked at; for each further label that begins with that of
-- the pool one waiter is counted, the least there can be. Changes nothing.
-- Returns {free slots, lent, published, 1 | 0 (under maintenance), waiters, labels with waiters, 1 | 0 (there may be more)}
command.read('capacity/autoscale', {
  'pool',
  'limit: number',  -- most labels that are looked at
}, function(a)
  local waiting, labels, more = 0, 0, 0
  local has_caps = redis.call('EXISTS', keys.caps) == 1

  local function count(label)
    local live = redis.call('ZCARD', keys.queue(label))
    local cap = has_caps and caps.of(label) or 0
    if cap > 0 then live = math.min(live, cap - redis.call('ZCARD', keys.in_flight(label))) end
    waiting, labels = waiting + math.max(0, live), labels + 1
  end

  local function count_below()
    for _, label in ipairs(redis.call('ZRANGE', keys.under(a.pool), 0, a.limit - 1)) do count(label) end
    local rest = redis.call('ZCARD', keys.under(a.pool)) - a.limit
    if rest > 0 then waiting, labels, more = waiting + rest, labels + rest, 1 end
  end

  local function count_wild()
    for _, label in ipairs(redis.call('ZRANGE', keys.wild, 0, a.limit - 1)) do
      if waiters.wild_serves(label, a.pool) then count(label) end
    end
    if redis.call('ZCARD', keys.wild) > a.limit then more = 1 end
  end

  if turns.anybody() then
    if store.trailing == '1' then
      count_below()
    elseif redis.call('ZSCORE', keys.under(a.pool), a.pool) then
      count(a.pool)
    end
    if store.prefix == '1' then
      for _, stem in ipairs(turns.stems(a.pool)) do
        if stem ~= a.pool and redis.call('ZSCORE', keys.under(stem), stem) then count(stem) end
      end
    end
    if store.wildcards == '1' then count_wild() end
  end
  return {redis.call('LLEN', keys.available(a.pool)), redis.call('LLEN', keys.inuse(a.pool)),
    redis.call('SCARD', keys.pool_slots(a.pool)), redis.call('EXISTS', keys.maintenance(a.pool)), waiting, labels, more}
end)
