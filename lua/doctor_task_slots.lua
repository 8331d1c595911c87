-- Checks and repairs of the slots of tasks: leases that say to which task they belong, and the task that says which bundle it has.
local doctor_task_slots = {}

-- Return a slot that a task has lost and whose loss is not noted, '?' where its name is lost as well; nil for none.
local function lost_of(t)
  local alive, lost = {}, nil
  local live = bundles.live(t.slots)
  for n, each in ipairs(live) do
    if each[3] ~= n then lost = '?' end
    alive[each[1]] = bundles.task_of(redis.call('HGET', keys.session(each[1]), 'holder')) == t.id
  end
  if not live[1] then lost = '?' end
  for _, slot in ipairs(redis.call('HKEYS', keys.bundle(t.slots))) do
    if not alive[slot] then lost = slot end
  end
  local noted = t.id .. '|' .. t.slots .. '|'
  for _, loss in ipairs(lost and redis.call('LRANGE', keys.slot_losses, 0, -1) or {}) do
    if string.sub(loss, 1, #noted) == noted then return nil end
  end
  return lost
end

-- Return whether the heartbeats of the worker of a task do not renew its slots.
local function lapses(t)
  local worker = keys.worker(t.worker or '')
  return redis.call('EXISTS', worker) == 1 and redis.call('HGET', worker, 'lends') ~= '1'
end

-- Check a task whose record says that it has slots.
function doctor_task_slots.check(say, t)
  if not t.slots then return end
  local held = tasks.is_held(t.status)
  say('slots left', not held)
  say('slots lost', held and lost_of(t))
  say('slots lapse', held and lapses(t))
end

-- A task that has lost a slot loses the attempt, as for any slot that is lost.
function doctor_task_slots.repair(t)
  if not t.slots then return end
  if not tasks.is_held(t.status) then return redis.call('HDEL', keys.task(t.id), 'slots') end
  local lost = lost_of(t)
  if lost then redis.call('RPUSH', keys.slot_losses, t.id .. '|' .. t.slots .. '|' .. lost) end
  if lapses(t) then redis.call('HSET', keys.worker(t.worker), 'lends', '1') end
end

-- Return the task to which a lease says that it belongs, where that does not have it, and whether it should. After a loss of the store
-- leases come back whose tasks wait again: those lapse by themselves.
local function stranger(slot, grace_ms)
  local holder, ttl_s = unpack(redis.call('HMGET', keys.session(slot), 'holder', 'ttlSeconds'))
  local id = bundles.task_of(holder)
  local t = id and (tasks.read(id) or {})
  local held = t and tasks.is_held(t.status or '')
  if not t or held and t.slots == bundles.of_slot(slot) then return nil end
  if held and not t.slots and task_slots.wish(t.job) then return t, true end
  local granted_ms = tonumber(redis.call('HGET', keys.slot(slot), 'granted_ms') or 'inf')
  return store.clock_ms > granted_ms + 1000 * (tonumber(ttl_s) or 0) + grace_ms and t or nil
end

-- Check a lease of a task.
function doctor_task_slots.check_lease(say, slot, grace_ms) say('not of its task', stranger(slot, grace_ms)) end

-- Give a task its slots back where it has none, or else end the lease.
function doctor_task_slots.repair_lease(slot, grace_ms)
  local t, misses = stranger(slot, tonumber(grace_ms))
  if not t then return end
  if misses then return redis.call('HSET', keys.task(t.id), 'slots', bundles.of_slot(slot)) and nil end
  local record = slots.read(slot)
  if record.place == 'lent' then releases.release(slot, record, '120', 'grant.ended', 'doctor') end
end

return doctor_task_slots
