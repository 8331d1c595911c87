-- Repeat, to a store that may have lost it, what a worker reported or how a task was cancelled. Safe to repeat.
-- Returns {'recalled'} (it counts now) | {'known'} (the store knows an end) | {'newer'} (the store knows a later claim) | {'task'}
--   (unknown: it is kept until a hub submits the task again)
command.finish('tasks/recall', {
  'id',
  'status',   -- completed | failed | cancelled | pending
  'error',    -- text of a failure, '' for none
  'claim',    -- '' where it is not known or there was none
  'request',  -- request id
  'worker',   -- '' where it is not known or there was none
  'result',   -- JSON, '' for none
}, function(a)
  local t = tasks.read(a.id)
  if t then return {recalls.end_again(t, a.status, a.error, a.claim, a.request, a.worker, a.result)} end
  recalls.wait_for(a.id, a.status, reserve.shortened(a.error), a.claim, a.request, a.worker)
  recalls.keep_result(a.id, a.result)
  return {'task'}
end)
