-- What an autoscaler needs to know of a pool, in one look: its slots, and the live waiters it may serve, over all
-- labels they asked for. Of a label with a cap only as many count as the cap leaves room for: more slots would not help
-- the others. At most `limit` labels below the pool, and as many with `*`, are looked at; of the rest below the pool
-- one waiter each is counted, which is the least there are. Changes nothing.
-- Returns {free, lent, published, 1 | 0 (under maintenance), waiting, labels waited for, 1 | 0 (there may be more)}
local pool  = ARGV[1]
local limit = tonumber(ARGV[2])
-- @include next_waiter
local waiting, labels, more = 0, 0, 0
local has_caps = redis.call('EXISTS', key_caps) == 1

local function count(label)
  local live = redis.call('ZCARD', key_line(label))
  local cap = has_caps and cap_of(label) or 0
  if cap > 0 then live = math.min(live, cap - redis.call('ZCARD', key_asked(label))) end
  waiting, labels = waiting + math.max(0, live), labels + 1
end

local function count_below()
  for _, label in ipairs(redis.call('ZRANGE', key_under(pool), 0, limit - 1)) do count(label) end
  local rest = redis.call('ZCARD', key_under(pool)) - limit
  if rest > 0 then waiting, labels, more = waiting + rest, labels + rest, 1 end
end

local function count_wild()
  for _, label in ipairs(redis.call('ZRANGE', key_wild, 0, limit - 1)) do
    if wild_serves(label, pool) then count(label) end
  end
  if redis.call('ZCARD', key_wild) > limit then more = 1 end
end

if somebody_waits() then
  if trailing == '1' then
    count_below()
  elseif redis.call('ZSCORE', key_under(pool), pool) then
    count(pool)
  end
  if prefix == '1' then
    for _, stem in ipairs(stems(pool)) do
      if stem ~= pool and redis.call('ZSCORE', key_under(stem), stem) then count(stem) end
    end
  end
  if wildcards == '1' then count_wild() end
end
return {redis.call('LLEN', key_available(pool)), redis.call('LLEN', key_inuse(pool)),
  redis.call('SCARD', key_pool_slots(pool)), redis.call('EXISTS', key_maintenance(pool)), waiting, labels, more}
