-- Progress: what a running task says of itself, and how long it may be silent.
local progress = {}

local KEPT = 100  -- most texts of the log of a task

-- Begin anew, on the hub clock, the time for which a task may be silent.
function progress.listen(t)
  if t.silence then redis.call('ZADD', keys.silences, store.clock_ms + t.silence, t.id) end
end

-- Store a progress report of a task. `share` and `message` are '' where they stay as they are; `texts` are lines for its log, '' for none.
function progress.note(t, share, message, texts, request)
  local said = numbers.digits(store.now_us)
  redis.call('HSET', keys.task(t.id), 'said', said, 'heard', request)
  if share ~= '' then redis.call('HSET', keys.task(t.id), 'progress', share) end
  if message ~= '' then redis.call('HSET', keys.task(t.id), 'message', message) end
  if texts ~= '' then
    for text in string.gmatch(texts, '[^\n]+') do redis.call('RPUSH', keys.task_log(t.id), said .. ' ' .. text) end
    redis.call('LTRIM', keys.task_log(t.id), -KEPT, -1)
  end
  progress.listen(t)
  local shown = redis.call('HMGET', keys.task(t.id), 'progress', 'message')
  events.progress(t, shown[1], shown[2], said)
end

-- Return the progress of a task: share, message, when it said so, the silence it is allowed in ms, then the texts of its log; '' for
-- what there is not.
function progress.reply(id)
  local reply = redis.call('HMGET', keys.task(id), 'progress', 'message', 'said', 'silence')
  for i = 1, 4 do reply[i] = reply[i] or '' end
  if reply[3] ~= '' then
    for _, text in ipairs(redis.call('LRANGE', keys.task_log(id), 0, -1)) do reply[#reply + 1] = text end
  end
  return reply
end

return progress
