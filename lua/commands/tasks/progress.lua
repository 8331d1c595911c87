-- Take the progress of running tasks of a worker. Safe to repeat: what was noted is not noted again.
-- Returns {'worker'} (unknown) | {'owner'} (not the caller's) | {word per task, ...}: 'ok' | 'gone' (no such task) | 'forbidden' (the
--   worker does not hold it) | 'conflict' (it is not running, or was claimed again)
command.change('tasks/progress', {
  'worker',
  'user',     -- the calling user
  'request',  -- request id
  '...said',  -- per task: id, claim or '', share or '' (as before), message or '' (as before), texts for its log by line
}, function(a, argv)
  local owner = redis.call('HGET', keys.worker(a.worker), 'user')
  if not owner then return {'worker'} end
  if owner ~= a.user then return {'owner'} end
  local function hear(id, claim, ...)
    local t = tasks.read(id)
    if not t then return 'gone' end
    if t.worker ~= a.worker then return t.worker and 'forbidden' or 'conflict' end
    if t.status ~= 'running' or (claim ~= '' and claim ~= t.claim) then return 'conflict' end
    if redis.call('HGET', keys.task(id), 'heard') ~= a.request then progress.note(t, ...) end
    return 'ok'
  end
  local words = {}
  for i = 4, #argv, 5 do
    local id, claim, share, message, texts = unpack(argv, i, i + 4)
    words[#words + 1] = hear(id, claim, share, message, texts, a.request)
  end
  return words
end)
