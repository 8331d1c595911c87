-- Incarnations of workers.
local incarnations = {}

-- Which process a worker is: the one that registered last. A call that does not say its process is taken for that one's.
function incarnations.is_superseded(worker, incarnation)
  local now = incarnation ~= '' and redis.call('HGET', keys.worker(worker), 'incarnation')
  return now and now ~= incarnation
end

-- Whether a process was the worker, and another one has registered since.
function incarnations.is_past(worker, incarnation)
  local past = incarnation ~= '' and redis.call('HGET', keys.worker(worker), 'past')
  return past and string.find(past, incarnation, 1, true)
end

-- A process registers for a worker. Returns whether it is the worker now, and the one that was it before or nil.
function incarnations.take_over(worker, incarnation)
  if incarnation == '' then return true end
  local record = redis.call('HMGET', keys.worker(worker), 'incarnation', 'past')
  local now, past = record[1], record[2] or ''
  if now == incarnation then return true end
  if string.find(past, incarnation, 1, true) then return false end
  redis.call('HSET', keys.worker(worker), 'incarnation', incarnation)
  if not now then return true end
  redis.call('HSET', keys.worker(worker), 'past', string.sub(now .. ' ' .. past, 1, 650))  -- the latest ten
  history.note('worker.superseded', 'worker', worker, 'incarnation', incarnation, 'before', now)
  return true, now
end

return incarnations
