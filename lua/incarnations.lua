-- Incarnations: which process a worker is. It is the process that registered last; a call that names no process ('') counts as a call
-- of it.
local incarnations = {}

-- Return whether another process than this one is the worker now.
function incarnations.is_superseded(worker, incarnation)
  local now = incarnation ~= '' and redis.call('HGET', keys.worker(worker), 'incarnation')
  return now and now ~= incarnation
end

-- Return whether a process was the worker before, and another one has registered since.
function incarnations.is_past(worker, incarnation)
  local past = incarnation ~= '' and redis.call('HGET', keys.worker(worker), 'past')
  return past and string.find(past, incarnation, 1, true)
end

-- Register a process as the worker. Returns whether it is the worker now (false for one that was superseded), and the process that it
-- superseded or nil.
function incarnations.take_over(worker, incarnation)
  if incarnation == '' then return true end
  local record = redis.call('HMGET', keys.worker(worker), 'incarnation', 'past')
  local now, past = record[1], record[2] or ''
  if now == incarnation then return true end
  if string.find(past, incarnation, 1, true) then return false end
  redis.call('HSET', keys.worker(worker), 'incarnation', incarnation)
  if not now then return true end
  redis.call('HSET', keys.worker(worker), 'past', string.sub(now .. ' ' .. past, 1, 650))  -- at least the latest ten
  history.note('worker.superseded', 'worker', worker, 'incarnation', incarnation, 'before', now)
  return true, now
end

return incarnations
