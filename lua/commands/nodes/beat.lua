-- Take the heartbeats of many nodes; each has an answer of its own. Safe to repeat. The slots of a node that was suspect are lent
-- again, 256 in one call.
-- Returns per node: 0 (unknown, or the store lost slots of it: it has to register and publish again) | 1 (its orders are unchanged)
--   | 2 (unchanged, and it drains) | 3 (superseded: another process is the node, and this one has to stop)
--   | {version of the orders, 1 | 0 (it drains), {slot, token, ...} of its leases, {slot to recycle, ...}, digest of the slots that the
--   hub offers or '', the last drain call as `drains.last_call` returns it, labels and runs of its leases as `leases.asked` returns
--   them, {slot to be made fresh, number of the end, ...}, {slot that an operator holds, number|reason, ...}}
command.finish('nodes/beat', {
  'timeout_ms',  -- timeout of nodes
  '...beats',    -- per node: raw id, key part of the id, version of the orders that it knows, incarnation or ''
}, function(a, argv)
  local heard = {}
  for i = 2, #argv, 4 do heard[#heard + 1] = argv[i] end
  local registered = redis.call('SMISMEMBER', keys.nodes, unpack(heard))
  local readings, duties = {}, {}
  for i, id in ipairs(heard) do
    local part, incarnation = argv[i * 4 - 1], argv[i * 4 + 1]
    local duty = registered[i] == 1 and redis.call('HMGET', keys.orders(part), 'version', 'drain', 'republish', 'suspect',
      'reported', 'incarnation', 'cordon')
    local word = duty and (incarnation == '' and 'own' or node_processes.word(part, incarnation, duty[6]))
    duties[i] = word == 'own' and duty or word == 'superseded' and 3 or 0
    if word == 'own' then  -- no other process keeps the node alive
      readings[#readings + 1] = store.clock_ms
      readings[#readings + 1] = id
    end
  end
  if #readings > 0 then redis.call('ZADD', keys.beats, unpack(readings)) end

  local function recycle_list(part)
    local found, ends, said = {}, {}, redis.call('HGETALL', keys.orders(part))
    for i = 1, #said, 2 do
      local kind, slot = string.match(said[i], '^(%l+):(.+)$')
      if kind == 'end' then
        ends[#ends + 1], ends[#ends + 2] = slot, said[i + 1]
      elseif kind == 'recycle' and redis.call('EXISTS', keys.recycle(slot)) == 1 then
        found[#found + 1] = slot
      elseif kind == 'recycle' then
        redis.call('HDEL', keys.orders(part), said[i])
      end
    end
    return found, ends
  end

  local function operator_holds(part)
    local held, said = {}, store.holds and redis.call('HGETALL', keys.node_holds(part)) or {}
    for i = 1, #said, 2 do
      local slot = string.match(said[i], '^operator:(.+)$')
      if slot then held[#held + 1], held[#held + 2] = slot, said[i + 1] end
    end
    return held
  end

  local seen = times.text(store.now_ms)
  local function beat(id, part, version, incarnation, duty)
    redis.call('SET', keys.node_alive(part), '1', 'PX', a.timeout_ms)
    redis.call('HSET', keys.node(part), 'LastSeen', seen)
    if store.reporting and duty[5] ~= store.generation and redis.call('EXISTS', keys.node_slots(part)) == 1 then return 0 end
    if duty[4] then
      placing.resume(id, part)
      duty[1] = redis.call('HGET', keys.orders(part), 'version')
    end
    if duty[3] then
      redis.call('HDEL', keys.orders(part), 'republish')
      return 0
    end
    local drains_away = duty[2] and not duty[7]
    if (duty[1] or '0') == version then return drains_away and 2 or 1 end
    local recycle, ends = recycle_list(part)
    return {duty[1] or '0', drains_away and 1 or 0, redis.call('HGETALL', keys.lent(part)), recycle,
      incarnation ~= '' and slot_digests.of(part) or '', drains.last_call(id, part), leases.asked(part), ends,
      operator_holds(part)}
  end
  local answers = {}
  for i = 1, #heard do
    local duty, at = duties[i], i * 4
    answers[i] = type(duty) == 'number' and duty or beat(heard[i], argv[at - 1], argv[at], argv[at + 1], duty)
  end
  serving.opened()
  return answers
end)
