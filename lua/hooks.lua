-- Hooks: programs of users that are told of events, each over HTTP from a queue of its own, which hubs empty.
local hooks = {}

local GROUP = 'hooks'        -- the consumer group that reads the history: its position is that of all hooks
local QUEUE_MAX = 5000       -- messages that wait for one hook; beyond that the oldest are dropped and counted
local BATCH_BYTES = 200000   -- memory that one batch of events may take; it waits while that would use the reserve
local OBJECTS = {lease = 'slot', slot = 'slot', ticket = 'ticket', node = 'node', task = 'task'}

-- Begin to read the history where the first hook is added; what happened before is told to none.
function hooks.begin()
  redis.pcall('XGROUP', 'DESTROY', keys.history, GROUP)
  redis.pcall('XGROUP', 'CREATE', keys.history, GROUP, '$', 'MKSTREAM')
  local last = redis.call('XREVRANGE', keys.history, '+', '-', 'COUNT', 1)[1]
  redis.call('HSET', keys.store, 'hooks', '1', 'hooks_seen', (hooks.counts()), 'hooks_at', last and last[1] or '0')
end

-- Read the history no more, as the last hook is gone.
function hooks.stop()
  redis.pcall('XGROUP', 'DESTROY', keys.history, GROUP)
  redis.call('HDEL', keys.store, 'hooks', 'hooks_seen', 'hooks_at', 'hooks_second', 'hooks_sent')
end

-- Return how many events were ever written, and how many of them were trimmed away.
function hooks.counts()
  local said, of = redis.pcall('XINFO', 'STREAM', keys.history), {}
  if said.err then return '0', 0 end
  for i = 1, #said, 2 do of[said[i]] = said[i + 1] end
  return numbers.digits(of['entries-added']), of['entries-added'] - of.length
end

-- Return the next events of the history, at most `most`, and how many were trimmed away before they were read.
function hooks.read(most)
  if reserve.would_use(BATCH_BYTES) then return {}, 0 end
  local added, trimmed = hooks.counts()
  local seen = tonumber(redis.call('HGET', keys.store, 'hooks_seen') or '0')
  if seen > tonumber(added) then seen = 0 end  -- the history began anew
  local function ask() return redis.pcall('XREADGROUP', 'GROUP', GROUP, 'hub', 'COUNT', most, 'NOACK', 'STREAMS', keys.history, '>') end
  local found = ask()
  if found and found.err then  -- the group was lost with the history, or in a copy of the store: go on behind the last event that was read
    local at = redis.call('HGET', keys.store, 'hooks_at') or '0'
    redis.pcall('XGROUP', 'CREATE', keys.history, GROUP, at, 'MKSTREAM')
    seen, found = tonumber(added) - #redis.call('XRANGE', keys.history, '(' .. at, '+', 'COUNT', 20000), ask()
  end
  local events = found and not found.err and found[1][2] or {}
  if #events > 0 then redis.call('HSET', keys.store, 'hooks_at', events[#events][1]) end
  local lost = math.max(0, trimmed - seen)
  if lost > 0 or #events > 0 then redis.call('HSET', keys.store, 'hooks_seen', numbers.digits(seen + lost + #events)) end
  return events, lost
end

-- Put an event into the queue of a hook, once for each type of message that it asks for. hook: id, wants, label and user as stored.
-- Returns how many messages that made.
function hooks.offer(hook, id, said, of)
  if hook.user ~= '' and hook.user ~= of.user then return 0 end
  if hook.label ~= '' and not (hook_labels.fits(hook.label, of.label) or hook_labels.fits(hook.label, of.pool)) then return 0 end
  local made = 0
  for kind, type in string.gmatch(hook.wants, '(%S+)=(%S+)') do
    if kind == of.event then
      local object = OBJECTS[string.match(type, '^%a+')] or ''
      redis.call('XADD', keys.hook_queue(hook.id), '*', 'type', type, 'id', id, 'object', object .. ':' .. (of[object] or ''), unpack(said))
      made = made + 1
    end
  end
  return made
end

-- Bound the queue of a hook, and let hubs empty it now, unless it is paused or a hub has its turn. Returns how many messages were dropped.
function hooks.wake(id)
  local dropped = redis.call('XTRIM', keys.hook_queue(id), 'MAXLEN', QUEUE_MAX)
  if dropped > 0 then redis.call('HINCRBY', keys.hook(id), 'dropped', dropped) end
  local paused, until_ms = unpack(redis.call('HMGET', keys.hook(id), 'paused', 'turn_ms'))
  if not paused and store.clock_ms >= tonumber(until_ms or '0') then redis.call('ZADD', keys.hooks_due, store.clock_ms, id) end
  return dropped
end

return hooks
