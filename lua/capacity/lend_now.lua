-- Lend at once where nothing stands in the way: nobody waits, no cap is reached, the request is new. Most borrows need no
-- more than this, and a short script is a fast one: capacity/borrow knows all the rest. Safe to repeat.
-- Returns {'ok', ...} as capacity/borrow does | {'ask', dropped} (nobody got anything: ask capacity/borrow)
local label       = ARGV[1]
local ttl_ms      = ARGV[2]
local idle_ms     = ARGV[3]             -- 0: no idle rule
local run         = ARGV[4]
local request     = ARGV[5]             -- request id
local attempt     = ARGV[6]             -- of this very call
local fingerprint = ARGV[7]             -- of what was asked for
local keep_s      = ARGV[8]             -- how long the request id is remembered
-- @include store
-- @include caps
-- @include match
-- @include lend
if opened[9] == '1' or settle_left_ms > 0 or capped(label)
  or redis.call('EXISTS', key_request(request), key_request(attempt), key_ticket(request)) > 0 then return {'ask', dropped} end
local found = match(label)
if not found then return {'ask', dropped} end
grant_to({id = request, label = label, run = run, ttl_ms = ttl_ms, idle_ms = idle_ms, fingerprint = fingerprint,
  attempt = attempt, keep_s = keep_s}, found)
note('grant.lent', 'slot', found.slot, 'node', found.node, 'pool', found.pool, 'label', label, 'run', run,
  'ticket', request, 'ttl_ms', ttl_ms)
return {'ok', found.slot, found.token, found.item, found.pool, found.ttl_ms, found.ttl_ms, run, dropped}
