-- Say again what a worker reported, or how a task was cancelled, to a store that may have lost it. Safe to repeat.
-- Returns {'recalled'} | {'known'} | {'newer'} (than what is said) | {'task'} (unknown: kept until a hub submits it again)
command.change('tasks/recall', {
  'id',
  'status',   -- completed | failed | cancelled | pending
  'error',
  'claim',    -- '' where it is not known, or there was none
  'request',
  'worker',   -- '' where it is not known, or there was none
  'result',   -- what it came to, JSON, '' for nothing
}, function(a)
  local t = tasks.read(a.id)
  if t then return {recalls.end_again(t, a.status, a.error, a.claim, a.request, a.worker, a.result)} end
  recalls.wait_for(a.id, a.status, a.error, a.claim, a.request, a.worker)
  recalls.keep_result(a.id, a.result)
  return {'task'}
end)
