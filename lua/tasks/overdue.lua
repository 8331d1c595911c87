-- Fail tasks whose time is over, the oldest first, and try those again that have another attempt. Safe to repeat.
-- kind: 'internal' (an @internal task that nobody ended) | 'ownerless' (claimed by nobody) | 'runtime' (longer than its claim
-- allowed). Returns {'ok', how many failed, 1 | 0 (there may be more)}
local kind   = ARGV[1]
local age_ms = tonumber(ARGV[2])     -- how long they may stand there on the hub clock
local limit  = tonumber(ARGV[3])
-- @include settle_task
local places = {internal = key_internal_tasks, ownerless = key_ownerless, runtime = key_runtimes}
local errors = {internal = 'Internal worker timeout', ownerless = 'Worker disconnected', runtime = 'Runtime exceeded'}
local late = redis.call('ZRANGE', places[kind], '-inf', '(' .. clock_ms - age_ms, 'BYSCORE', 'LIMIT', 0, limit)
local failed = 0
for _, id in ipairs(late) do
  local t = read_task(id)
  if t and (t.status == 'claimed' or t.status == 'running') then
    fail(t, errors[kind], kind .. ':' .. id)
    check_orphan(t.job)
    failed = failed + 1
  end
  redis.call('ZREM', places[kind], id)
end
return {'ok', failed, #late == limit and 1 or 0}
