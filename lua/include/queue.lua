-- @include task
-- Where pending tasks wait: in the queue of their job, the first of each among the heads of all queues, or in `later`
-- until they are due.

-- Put a pending task where claims find it, and ring, once a call, for those who wait for one.
local rung = {}
local function queue_up(t)
  local place = digits(t.at - 1000000 * (t.prio or 0))
  redis.call('ZADD', key_queue(t.job), place, t.id)
  redis.call('ZADD', key_heads, 'LT', place, t.job)
  if rung[t.job] then return end
  rung[t.job] = true
  redis.call('PUBLISH', key_job_bell(t.job), '')
end

-- Whoever took the first task out of a job's queue calls this.
local function set_head(full)
  local first = redis.call('ZRANGE', key_queue(full), 0, 0, 'WITHSCORES')
  if first[1] then redis.call('ZADD', key_heads, first[2], full) else redis.call('ZREM', key_heads, full) end
end

-- Take a pending task out of its job's queue, in which it stands at any place or not at all.
local function unqueue(t)
  if redis.call('ZREM', key_queue(t.job), t.id) == 1 then set_head(t.job) end
end

local function position_of(t)
  local rank = redis.call('ZRANK', key_queue(t.job), t.id)
  return rank and rank + 1
end

-- Put a pending task off until it is due.
local function put_off(t, due_us)
  t.due = digits(due_us)
  redis.call('HSET', key_task(t.id), 'due', t.due)
  redis.call('ZADD', key_later, t.due, t.id)
  redis.call('HINCRBY', key_job(t.job), 'later', 1)
end

-- Let what is due into its queue.
local function let_in(limit)
  local due = redis.call('ZRANGE', key_later, '-inf', now_us, 'BYSCORE', 'LIMIT', 0, limit)
  for _, id in ipairs(due) do
    redis.call('ZREM', key_later, id)
    local t = read_task(id)
    if t and t.at and t.status == 'pending' then
      redis.call('HINCRBY', key_job(t.job), 'later', -1)
      redis.call('HDEL', key_task(id), 'due')
      queue_up(t)
      emit_available(t)
    end
  end
  return #due
end
