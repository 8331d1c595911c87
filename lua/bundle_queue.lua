-- The queue of bundles: who may wait, and the answers to their callers.
local bundle_queue = {}

-- Return why a newcomer may not wait, as the answer of the command; nil when it may.
function bundle_queue.refusal(run, max_waiting, max_run)
  local waiting, pending = redis.call('ZCARD', keys.bundles), tonumber(redis.call('HGET', keys.pending, run) or '0')
  if waiting >= max_waiting then return {'per-label-cap', waiting} end
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
  local id = bundles.id_of(string.match(record, '^.-|.*|(%d+)|.*$'))
  local live = bundles.live(id)
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
