-- @include time_text
-- @include whole
-- Make a grant of a slot that is in no list: in-use list, session, deadline, footprints, indexes, in one go.
-- grant: slot item pool node part label run token ttl_ms idle_ms. Needs the two times of `store`.
local function lend(grant)
  local slot, ttl_ms = grant.slot, grant.ttl_ms
  local at, idle_ms = whole(now_ms), whole(grant.idle_ms)
  redis.call('RPUSH', key_inuse(grant.pool), grant.item)
  redis.call('SET', key_borrow_ttl(slot), '1', 'PX', whole(ttl_ms))
  if grant.idle_ms > 0 then redis.call('SET', key_borrow_idle(slot), '1', 'PX', idle_ms) end
  redis.call('HSET', key_session(slot), 'browserId', slot, 'labelKey', grant.label, 'runId', grant.run,
    'nodeId', grant.node, 'borrowedAtUtc', time_text(now_ms), 'ttlSeconds', string.format('%.14g', ttl_ms / 1000),
    'poolLabel', grant.pool, 'leaseToken', grant.token)
  redis.call('HSET', key_slot(slot), 'place', 'lent', 'label', grant.label, 'run', grant.run, 'granted_ms',
    whole(clock_ms), 'visible_ms', whole(now_ms + ttl_ms), 'watch_idle', idle_ms)
  redis.call('ZADD', key_deadlines, whole(clock_ms + ttl_ms), slot)
  redis.call('ZADD', key_asked(grant.label), at, slot)
  if grant.run ~= '' then
    redis.call('SET', key_browser_run(slot), grant.run, 'EX', '21600')
    redis.call('ZADD', key_run(grant.run), at, slot)
  end
  redis.call('HSET', key_lent(grant.part), slot, grant.token)
  redis.call('HINCRBY', key_duty(grant.part), 'version', '1')
end

-- The idle clock of a slot in ms, 0 for none: its own rule, else the hub's; 0 in its own rule means the whole lease.
local function idle_of(own_ms, hub_idle_ms, ttl_ms)
  local own = tonumber(own_ms or '')
  if not own then return hub_idle_ms end
  if own > 0 then return own end
  return hub_idle_ms > 0 and ttl_ms or 0
end

-- The next token. It has more digits than a Lua number holds, so the last nine are counted here and the rest is text;
-- every thousand million grants Redis carries over.
local last_token = opened[11] or '0'
local function next_token()
  local low = string.sub(last_token, -9) + 1
  if #last_token > 9 and low < 1000000000 then
    last_token = string.format('%s%09d', string.sub(last_token, 1, -10), low)
    redis.call('HSET', key_store, 'token', last_token)
  else
    redis.call('HINCRBY', key_store, 'token', 1)
    last_token = redis.call('HGET', key_store, 'token')
  end
  return last_token
end

-- Grant a slot that is in no list as it was asked for, under the next token, and remember that for the request.
-- wish: id label run ttl_ms idle_ms fingerprint attempt keep_s. found: slot item pool node part own_idle_ms.
local function grant_to(wish, found)
  found.token = next_token()
  found.label, found.run, found.ttl_ms = wish.label, wish.run, tonumber(wish.ttl_ms)
  found.idle_ms = idle_of(found.own_idle_ms, tonumber(wish.idle_ms), found.ttl_ms)
  lend(found)
  redis.call('SET', key_request(wish.id),
    wish.fingerprint .. '|' .. found.slot .. '|' .. found.token .. '|' .. wish.attempt, 'EX', wish.keep_s)
end
