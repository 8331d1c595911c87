-- Pool rules: how long slots may be held and left unused, by patterns of the labels of pools.
local pool_rules = {}

local rules, of_pool, kept = {}, {}, 0  -- the rules, the longest pattern first; pool -> its rule or false; how many pools are kept
local of_number, of_key, of_generation  -- the state of the store from which they were read

-- Read the rules, which the same number says have not changed since; one that cannot be read is left out.
local function load()
  rules, of_pool, kept = {}, {}, 0
  of_number, of_key, of_generation = store.rules, keys.rules, store.generation
  local said = lenient.call({}, 'HGETALL', keys.rules)
  for i = 1, #said, 2 do
    local is_read, rule = pcall(cjson.decode, said[i + 1])
    if is_read and type(rule) == 'table' then
      local hold, idle = tonumber(rule.hold), tonumber(rule.idle)
      local warn = tonumber(rule.warn) or math.min(60000, (hold or 120000) / 2, (idle or 120000) / 2)
      rules[#rules + 1] = {pattern = said[i], parts = patterns.split(said[i]), hold = hold, idle = idle, ttl = tonumber(rule.ttl),
        warn = math.floor(warn)}
    end
  end
  table.sort(rules, patterns.is_before)
end

-- Return the rule of a pool: that of the longest pattern which fits its label; nil without one. Its members are hold, idle, ttl and warn,
-- in ms; each but warn may be missing. The rules are read from Redis only after a change.
function pool_rules.of(pool)
  if store.rules == '' then return nil end
  if store.rules ~= of_number or keys.rules ~= of_key or store.generation ~= of_generation then load() end
  if of_pool[pool] == nil then
    if kept >= 1000 then of_pool, kept = {}, 0 end
    local found = false
    for i = 1, #rules do
      if patterns.fits(rules[i].parts, pool) then found = rules[i] break end
    end
    of_pool[pool], kept = found, kept + 1
  end
  return of_pool[pool] or nil
end

-- Return how long a lease lasts: `ttl_ms`, which is negative where the caller leaves it to the rule, and never longer than the hold.
function pool_rules.length_ms(rule, ttl_ms)
  local ms = math.abs(ttl_ms)
  if not rule then return ms end
  if ttl_ms < 0 then ms = rule.ttl or ms end
  return rule.hold and math.min(ms, rule.hold) or ms
end

-- Note a change of the rules under its number, which every call reads: calls look for rules only where there is one.
function pool_rules.note(number)
  store.rules = number
  redis.call('HSET', keys.store, 'rules', number)
end

return pool_rules
