-- Change the rule of a pattern of pools, for all hubs: `changes` replaces members; a rule without any is removed. Safe to repeat.
-- Returns {'ok', the rule as JSON or '' (there is none now)} | {'full'} (there are `most` already) | {'short', ms} (holders would be told
--   of an end before this, the shorter of longest hold and idle time, has begun)
command.change('capacity/set_rule', {
  'pattern',
  'changes',       -- JSON: hold, idle, ttl, warn in ms, each may be null to remove it
  'by',            -- the caller who changes it
  'most: number',  -- most rules
}, function(a)
  local before = redis.call('HGET', keys.rules, a.pattern)
  local rule = before and cjson.decode(before) or {}
  if not before and redis.call('HLEN', keys.rules) >= a.most then return {'full'} end
  for name, value in pairs(cjson.decode(a.changes)) do
    if value == cjson.null then rule[name] = nil else rule[name] = value end
  end
  local shortest = math.min(rule.hold or math.huge, rule.idle or math.huge)
  if rule.warn and rule.warn >= shortest then return {'short', shortest} end
  if not (rule.hold or rule.idle or rule.ttl) then
    redis.call('HDEL', keys.rules, a.pattern)
  else
    rule.by, rule.at = a.by, times.text(store.now_ms)
    redis.call('HSET', keys.rules, a.pattern, cjson.encode(rule))
  end
  pool_rules.note(lease_texts.next_token())
  return {'ok', redis.call('HGET', keys.rules, a.pattern) or ''}
end)
