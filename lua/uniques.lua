-- Uniques: keys under which there is one task at a time, and which task that is.
local uniques = {}

-- The task that stands for a key: it waits, a worker holds it, or it was completed within its window.
function uniques.find(unique)
  local id = redis.call('GET', keys.unique(string.match(unique, '^%x+')))
  return id and tasks.read(id)
end

-- A task that was made stands for its key. One that a hub says again does not, where another one stands for it by now.
function uniques.take(t)
  if t.unique and not uniques.find(t.unique) then redis.call('SET', keys.unique(string.match(t.unique, '^%x+')), t.id) end
end

-- A task is over: its key is free, or, of a completed one, when its window is over.
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
