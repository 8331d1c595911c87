-- Put a node on the books, or bring its entry up to date; it counts as a beat. Safe to repeat.
-- A process that says which one it is, and is newer than the one that was the node, takes over: the older one is told so
-- with its next beat, and whatever of it is late changes nothing. Which one is newer is said by the term that each was
-- given when it registered first; without one it is the one that comes later.
-- Returns {'registered' | 'updated', version, term or '', incarnation that is superseded by this or '',
--     {on, number, ms to the deadline or ''} of a drain that waited for the node to come back, or {}}
--   | {'superseded'} (by another) | {'collides', other id} | {'leaving'} (prune it to the end first)
local id         = ARGV[1]
local part       = ARGV[2]           -- the id as part of a key
local apps       = ARGV[3]
local capacity   = ARGV[4]
local labels     = ARGV[5]
local base_url   = ARGV[6]           -- '' removes it
local timeout_ms = tonumber(ARGV[7])
local audit_new  = ARGV[8]           -- the audit entry of a new node
local audit_old  = ARGV[9]           -- of an update
local audit_max  = tonumber(ARGV[10])
local incarnation = ARGV[11]         -- '' of plain clients
local said_term   = ARGV[12]         -- what it was given before, '' for nothing
-- @rest pool_labels                    those of its apps that are valid pool labels
-- @include store
-- @include time_text
-- @include serve
-- @include owner_of
-- @include speaker
-- @include above
-- @include lend
-- @include history
local raw = owner_of(part)
if raw and raw ~= id then return {'collides', raw} end
if redis.call('HEXISTS', key_leaving, part) == 1 then return {'leaving'} end

local duty = redis.call('HMGET', key_duty(part), 'incarnation', 'term')
local term, before = duty[2] or '', ''
if incarnation ~= '' and incarnation ~= duty[1] then
  local past = redis.call('LPOS', key_incarnations(part), incarnation)
  if past or (said_term ~= '' and duty[2] and above(duty[2], said_term)) then return {'superseded'} end
  term, before = said_term ~= '' and said_term or next_token(), duty[1] or ''
  if duty[1] then retire_incarnation(part, duty[1]) end
  redis.call('DEL', key_withdrawn(part))
  redis.call('HSET', key_duty(part), 'incarnation', incarnation, 'term', term)
  redis.call('HINCRBY', key_duty(part), 'version', 1)  -- so that its first beat is told everything
end

local known = redis.call('EXISTS', key_node(part)) == 1
redis.call('HSET', key_node(part), 'Apps', apps, 'Capacity', capacity, 'Labels', labels, 'LastSeen', time_text(now_ms))
if base_url ~= '' then
  redis.call('HSET', key_node(part), 'BaseUrl', base_url)
else
  redis.call('HDEL', key_node(part), 'BaseUrl')
end
if part ~= id then redis.call('HSET', key_node(part), 'HubId', id) end
redis.call('SADD', key_nodes, id)
redis.call('SET', key_node_alive(part), '1', 'PX', math.max(timeout_ms, 90000))  -- it may beat by writing it, every 10 s
redis.call('ZADD', key_beats, clock_ms, id)
for i = 13, #ARGV do
  if redis.call('EXISTS', key_available(ARGV[i])) == 1 and open_pool(ARGV[i]) then serve_pool(ARGV[i]) end
end
if not known then note('node.registered', 'node', id) end
if before ~= '' then note('node.superseded', 'node', id, 'incarnation', incarnation, 'before', before) end
redis.pcall('LPUSH', key_audit, known and audit_old or audit_new)  -- a log that cannot be written fails nothing
redis.pcall('LTRIM', key_audit, 0, audit_max - 1)
local version = redis.call('HGET', key_duty(part), 'version') or '0'
local waits = redis.call('HMGET', key_drain_call(part), 'on', 'number', 'left_ms')
if waits[1] then redis.call('DEL', key_drain_call(part)) end
return {known and 'updated' or 'registered', version, incarnation ~= '' and term or '', before, waits[1] and waits or {}}
