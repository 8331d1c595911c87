-- Count the tasks that have ended since the count before, for the metrics: each task once, over all hubs. Also updates the mean run
-- time of each job. Tasks that ended before the first count are not counted. Not safe to repeat: when the answer is lost, so is its
-- count.
-- Returns {'ok', 1 | 0 (there may be more), {job, status, number, ...}, {{job, kind, microseconds in all, number in each bucket, ...},
--   ...}}; status: also 'result lost', of completed tasks; kind: 'wait' (from the submit until it was started last) | 'run' (from then
--   to its end)
command.finish('tasks/count_ended', {
  'limit: number',  -- about the most tasks in this call
  '...bounds',      -- bounds of the buckets in microseconds, rising; one more bucket is above the last
}, function(a, argv)
  local now = numbers.digits(store.now_us)
  local since = redis.call('HGET', keys.store, 'counted_us')
  if not since or tonumber(since) > store.now_us then  -- also where the time of Redis was set back
    redis.call('HSET', keys.store, 'counted_us', now)
    return {'ok', 0, {}, {}}
  end
  local found = redis.call('ZRANGE', keys.finished, '(' .. since, now, 'BYSCORE', 'LIMIT', 0, a.limit, 'WITHSCORES')
  if not found[1] then return {'ok', 0, {}, {}} end
  local more = #found == 2 * a.limit
  local last = found[#found]
  local ids = {}
  for i = 1, #found, 2 do
    -- Tasks that ended in the same instant are counted in one call: a full batch would otherwise split them.
    if not (more and found[i + 1] == last) then ids[#ids + 1] = found[i] end
  end
  if more then
    for _, id in ipairs(redis.call('ZRANGE', keys.finished, last, last, 'BYSCORE')) do ids[#ids + 1] = id end
  end
  redis.call('HSET', keys.store, 'counted_us', last)

  local counts, times, count_of, times_of, ran_of = {}, {}, {}, {}, {}
  local function count(job, status)
    local key = job .. '\n' .. status
    if not count_of[key] then
      counts[#counts + 1], counts[#counts + 2], counts[#counts + 3] = job, status, 0
      count_of[key] = #counts
    end
    counts[count_of[key]] = counts[count_of[key]] + 1
  end
  local function observe(job, kind, us)
    local key = job .. '\n' .. kind
    local row = times_of[key]
    if not row then
      row = {job, kind, 0}
      for _ = 1, #argv do row[#row + 1] = 0 end
      times_of[key], times[#times + 1] = row, row
    end
    us = math.max(0, us)
    row[3] = row[3] + us
    local place = 2
    while argv[place] and us > tonumber(argv[place]) do place = place + 1 end
    row[2 + place] = row[2 + place] + 1
  end
  for _, id in ipairs(ids) do
    local t = lenient.fields(keys.task(id), 'job', 'status', 'at', 'started', 'done')
    if t[1] and tonumber(t[5] or '') and tonumber(t[3] or '') then
      count(t[1], t[2])
      -- `outcomes.keep_result` stores '!' for a lost result.
      if t[2] == 'completed' and redis.pcall('GETRANGE', keys.task_result(id), 0, 0) == '!' then count(t[1], 'result lost') end
      if tonumber(t[4] or '') then
        observe(t[1], 'wait', t[4] - t[3])
        observe(t[1], 'run', t[5] - t[4])
        ran_of[t[1]] = (ran_of[t[1]] or 0) + 1
      end
    end
  end
  for _, row in ipairs(times) do
    if row[2] == 'run' then jobs.ran(row[1], ran_of[row[1]], row[3]) end
    row[3] = numbers.digits(row[3])
  end
  return {'ok', more and 1 or 0, counts, times}
end)
