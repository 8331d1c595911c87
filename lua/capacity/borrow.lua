-- Lend the slot that has waited longest in the best pool for a label: list move, session, deadline, count, in one step;
-- where there is none, or somebody else is to have it, stand in line. The request id is the ticket: safe to repeat, the
-- same one gets the same place or the same grant, and a repeat looks again whether the line can be served.
-- Returns {'ok', slot, token, item, pool, ms until it lapses, ms of the lease, run, dropped}
--   | {'waiting', position in the line of its label, ms it will take or -1, dropped}
--   | {'empty', dropped} | {'capped', in flight} | {'settling', ms} (without a wait)
--   | {'per-label-cap', waiting} | {'per-run-cap', waiting} | {'deadline', position, ms it would take}
--   | {'over', slot} (that grant has ended) | {'undone'} (withdrawn) | {'reused'} (same request id, other request)
local label       = ARGV[1]
local ttl_ms      = ARGV[2]
local idle_ms     = ARGV[3]             -- 0: no idle rule
local run         = ARGV[4]
local request     = ARGV[5]             -- request id, and the ticket
local attempt     = ARGV[6]             -- of this very call: a request may be repeated, at other hubs too
local fingerprint = ARGV[7]             -- of what was asked for
local keep_s      = ARGV[8]             -- how long the request id is remembered
local keyed       = ARGV[9]             -- '1': the caller knows the request id and may come back
local repeated    = ARGV[10]            -- '1': this very call has asked before: it waits on
local hub         = ARGV[11]            -- the hub that answers
local wait_ms     = tonumber(ARGV[12])  -- how long this call may wait, 0: not at all
local limit_ms    = tonumber(ARGV[13])  -- the wait must not be expected to take longer; -1: whatever it takes
local priority    = tonumber(ARGV[14])  -- a point weighs as much as a second in line
local max_label   = tonumber(ARGV[15])  -- waiters per label
local max_run     = tonumber(ARGV[16])  -- waiters per run
-- @include store
-- @include serve
-- @include stand
local before, withdrawn = unpack(redis.call('MGET', key_request(request), key_request(attempt)))
if withdrawn == 'undone' or before == 'undone' then return {'undone'} end
if before then return granted(before, request, attempt, fingerprint, hub) end

-- A call that the client of Redis has sent twice finds its own ticket as well.
local known = (keyed == '1' or repeated == '1' or somebody_waits()) and read_ticket(request)
if known and known.label then
  if known.fingerprint ~= fingerprint then return {'reused'} end
  local waits = redis.call('ZSCORE', key_line(label), request)
  if waits and wait_ms == 0 then return {'empty', dropped} end
  -- A call that waits on does not take the place from a later one, unless the hub of that one is gone.
  local later = waits and repeated == '1' and known.attempt ~= attempt and heard(known.hub)
  if not later then attend(known, hub, attempt, clock_ms + wait_ms) end
  serve_label(label)
  serve_opened()
  local reply = standing(known, attempt, fingerprint, hub)
  if wait_ms > 0 or reply[1] ~= 'waiting' then return reply end
  set_aside(known, 'timeout')
  return {'empty', dropped}
end

local cap = cap_of(label)
local live = cap > 0 and redis.call('ZCARD', key_asked(label)) or 0
local wish = {id = request, label = label, run = run, ttl_ms = ttl_ms, idle_ms = idle_ms, fingerprint = fingerprint,
  attempt = attempt, keep_s = keep_s, keyed = keyed == '1', hub = hub}
if settle_left_ms <= 0 and (cap == 0 or live < cap) then
  local waiter
  for _ = 1, 20 do  -- slots that appeared unnoticed go to those who wait already
    local found = not (waiter and capped(label)) and match(label)
    if not found then break end
    waiter = somebody_waits() and next_waiter(found.pool)
    if not waiter then
      grant_to(wish, found)
      note('grant.lent', 'slot', found.slot, 'node', found.node, 'pool', found.pool, 'label', label, 'run', run,
        'ticket', request, 'ttl_ms', ttl_ms)
      return {'ok', found.slot, found.token, found.item, found.pool, found.ttl_ms, found.ttl_ms, run, dropped}
    end
    hand_on(waiter, found)
  end
  serve_opened()
end
if wait_ms <= math.max(0, settle_left_ms) then
  if settle_left_ms > 0 then return {'settling', math.ceil(settle_left_ms)} end
  if cap > 0 and live >= cap then return {'capped', live} end
  return {'empty', dropped}
end
local refusal = admit(wish, max_label, max_run, limit_ms, priority)
if refusal then return refusal end
enter(wish, priority, clock_ms + wait_ms)
return standing(wish, attempt, fingerprint, hub)
