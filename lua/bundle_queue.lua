-- The queue of bundles: who may wait, and the answers to their callers.
local bundle_queue = {}

-- Return how many bundles of a user wait.
local function waiting_of(user)
  local count = 0
  for _, ticket in ipairs(redis.call('ZRANGE', keys.bundles, 0, -1)) do
    if holders.of(redis.call('HGET', keys.ticket(ticket), 'holder')).user_id == user then count = count + 1 end
  end
  return count
end

-- Return why a newcomer may not wait, as the answer of the command; nil when it may. A user may have a quarter of the bundles that wait.
function bundle_queue.refusal(run, holder, max_waiting, max_run)
  local waiting, pending = redis.call('ZCARD', keys.bundles), tonumber(redis.call('HGET', keys.pending, run) or '0')
  local user, most = holders.of(holder).user_id, math.max(1, math.floor(max_waiting / 4))
  local own = user ~= '' and waiting >= most and waiting_of(user) or 0
  if waiting >= max_waiting or own >= most then return {'per-label-cap', own >= most and own or waiting} end
  if pending >= max_run then return {'per-run-cap', pending} end
end

-- Return a lease of a bundle as the answers have it: {slot, token, item, pool, ms left, ms it lasts, run, holder, label, class or ''}.
local function row(slot, token)
  local said = redis.call('HMGET', keys.session(slot), 'poolLabel', 'ttlSeconds', 'runId', 'holder', 'labelKey')
  local item, class = unpack(redis.call('HMGET', keys.slot(slot), 'item', 'class'))
  local left_ms = tonumber(redis.call('ZSCORE', keys.deadlines, slot) or store.clock_ms) - store.clock_ms
  return {slot, token, item or '', said[1], math.max(0, math.floor(left_ms)), math.floor(tonumber(said[2]) * 1000), said[3], said[4] or '',
    said[5], class or ''}
end

-- Return the answer to a caller whose bundle was lent: {'ok', bundle, {lease, ...}, dropped items}.
function bundle_queue.lent(id)
  local rows = {}
  for _, each in ipairs(bundles.live(id)) do rows[#rows + 1] = row(each[1], each[2]) end
  return {'ok', id, rows, call_state.dropped}
end

-- Return the answer to a repeat of a request that was granted, as queue.granted does: what is left of the bundle.
function bundle_queue.granted(record, request, attempt, fingerprint, hub)
  local reply = queue.granted(record, request, attempt, fingerprint, hub)
  if reply[1] ~= 'ok' and reply[1] ~= 'over' then return reply end
  local asked, slot, token, owners = string.match(record, '^(.-)|(.*)|(%d+)|(.*)$')
  local id = bundles.id_of(token)
  local live = bundles.live(id)
  if reply[1] == 'over' and live[1] then
    redis.call('SET', keys.request(request), table.concat({asked, slot, token, attempts.add(owners, attempt)}, '|'), 'KEEPTTL')
  end
  for _, each in ipairs(live) do tickets.settle_delivery(each[1], request) end
  return live[1] and bundle_queue.lent(id) or reply
end

-- Return the answer to a ticket that stood in the line at the beginning of the call and may have been granted in it.
function bundle_queue.standing(t, attempt, fingerprint, hub)
  local record = redis.call('GET', keys.request(t.id))
  if record then return bundle_queue.granted(record, t.id, attempt, fingerprint, hub) end
  return {'waiting', redis.call('ZRANK', keys.bundles, t.id) + 1, -1, call_state.dropped}
end

return bundle_queue
