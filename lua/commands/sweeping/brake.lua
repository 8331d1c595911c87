-- Ask the brake on removing nodes, or workers; all hubs share it. A pass says whether too many nodes or workers are stale at once, and
-- gets the number that it may remove: `limit` per interval over all hubs, and none in the first `grace_ms`, in which those that are
-- alive can be heard again. While no node at all is heard none may be removed: then the fault is the hub's, and the grace begins anew
-- with the first node that is heard; that does not hold for workers, which may all be gone at once. Many workers that are silent while
-- most others are heard are gone and need no brake, unless the store was away less than a timeout ago, or no worker was heard in a pass
-- of this brake. A release lets all of them be removed at once. Safe to repeat: the same pass gets the same answer.
-- Returns {word, number that may be removed}: 'engaged' (by this pass) | 'held' (it was engaged before) | 'released' (by an operator,
--   until not too many are stale or its time is over); {word, number that are stale}: 'off' | 'ended' (not too many any more)
command.finish('sweeping/brake', {
  'pass_id',             -- id of the pass
  'too_many',            -- '1': too many are stale for a sweep without the brake
  'stale: number',       -- number of stale nodes or workers
  'registered: number',  -- number of all nodes or workers
  'limit: number',       -- most that may be removed per interval
  'window_ms: number',   -- length of an interval
  'grace_ms: number',    -- one node timeout
  'dry_run',             -- '1': only read, change nothing
  'of',                  -- 'nodes' | 'workers'
  'others',              -- for workers, how many of the others are heard: 'most' | 'some' | 'none'
}, function(a)
  local brake = a.of == 'workers' and keys.worker_brake or keys.brake
  local was = redis.call('HMGET', brake, 'state', 'pass', 'word', 'allowed', 'window', 'spent', 'released_until_ms',
    'since_ms', 'stale', 'registered', 'unsure')
  local state = was[1]
  if a.of == 'workers' then store.reporting = false end  -- reports are a matter of nodes: the brake of workers works at all times
  local unsure = a.of == 'nodes' or a.others == 'none' or was[11] == '1'
    or (store.reopened_ms and store.clock_ms - store.reopened_ms < a.grace_ms)
  if a.others == 'most' and (not unsure or state) then a.too_many = '0' end
  local was_deaf = a.of == 'nodes' and was[9] and tonumber(was[9]) >= tonumber(was[10] or '1')
  -- Fewer are stale now, and the others may be about to be heard: the grace lasts to its end.
  local graced = state == 'engaged' and a.stale > 0 and unsure
    and (was_deaf or store.clock_ms - tonumber(was[8] or store.clock_ms) < a.grace_ms)
  if a.too_many ~= '1' and not graced then
    if not state then return {'off', a.stale} end
    if a.dry_run ~= '1' then
      redis.call('DEL', brake)
      history.note('brake.ended', 'of', a.of, 'stale', a.stale)
    end
    return {'ended', a.stale}
  end
  if was[2] == a.pass_id then return {was[3], tonumber(was[4])} end
  if store.reporting and not state then return {'off', a.stale} end  -- the store was away: no node is expired now

  local lapsed = state == 'released' and store.clock_ms >= tonumber(was[7])
  local word = (not state or lapsed) and 'engaged' or state == 'engaged' and 'held' or 'released'
  local window, spent = tonumber(was[5] or '0'), tonumber(was[6] or '0')
  if not was[5] or store.clock_ms - window >= a.window_ms then window, spent = store.clock_ms, 0 end
  local deaf = a.of == 'nodes' and (a.stale >= a.registered or was_deaf)  -- no node is heard, in this pass or the one before
  local since_ms = (word == 'engaged' or deaf) and store.clock_ms or tonumber(was[8] or store.clock_ms)
  local left = (store.reporting or store.clock_ms - since_ms < a.grace_ms) and 0 or a.limit - spent
  local allowed = word == 'released' and a.stale or math.min(a.stale, math.max(0, left))
  if a.dry_run == '1' then return {word, allowed} end

  if word == 'engaged' then
    redis.call('HDEL', brake, 'released_by', 'released_at', 'released_until_ms')
    redis.call('HSET', brake, 'state', 'engaged', 'since', times.text(store.now_ms))
    history.note('brake.engaged', 'of', a.of, 'stale', a.stale, 'registered', a.registered, 'limit', a.limit)
  end
  redis.call('HSET', brake, 'pass', a.pass_id, 'word', word, 'allowed', allowed, 'window', window, 'spent', spent + allowed,
    'stale', a.stale, 'registered', a.registered, 'limit', a.limit, 'held', a.stale - allowed, 'seen', times.text(store.now_ms),
    'since_ms', since_ms, 'unsure', unsure and '1' or '0')
  return {word, allowed}
end)
