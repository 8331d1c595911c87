-- Take what tasks that a worker runs say of themselves, many at once. Safe to repeat: what was heard is not noted again.
-- Returns a word per task: 'ok' | 'gone' (no such task) | 'forbidden' (the worker does not hold it) | 'conflict' (it does not
--   run, or was claimed again) | {'worker'} (unknown) | {'owner'} (not the caller's)
command.change('tasks/progress', {
  'worker',
  'user',
  'request',
  '...said',  -- per task: id, claim ('' where it names none), share ('' as before), message ('' as before), texts of its log
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
