-- Uniques: unique keys, under each of which there is one task at a time, and which task that is.
local uniques = {}

-- Return the task that stands for a key: it is pending, a worker holds it, or it was completed within its window; else nil.
function uniques.find(unique)
  local id = redis.call('GET', keys.unique(string.match(unique, '^%x+')))
  return id and tasks.read(id)
end

-- Let a new task stand for its key, unless another task does: a hub may submit a task again after a loss.
function uniques.take(t)
  if t.unique and not uniques.find(t.unique) then redis.call('SET', keys.unique(string.match(t.unique, '^%x+')), t.id) end
end

-- Free the key of a task that is over; after a completed task only when its window has ended.
function uniques.let_go(t, status)
  if not t.unique then return end
  local unique, window_us = string.match(t.unique, '^(%x+):(%d+)$')
  if redis.call('GET', keys.unique(unique)) ~= t.id then return end
  local until_ms = math.floor((t.at + window_us) / 1000)
  if status == 'completed' and until_ms > store.now_ms then
    redis.call('PEXPIREAT', keys.unique(unique), numbers.digits(until_ms))
  else
    redis.call('DEL', keys.unique(unique))
  end
end

return uniques
