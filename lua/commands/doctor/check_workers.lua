-- Check at workers: each is known, heard and listed everywhere or nowhere, and of one that is gone nothing is left but what is
-- being failed. Changes nothing.
-- Returns per worker a list of words; hub/doctor/job_words.py says what each means.
command.read('doctor/check_workers', {
  'timeout_ms: number',
  'grace_ms: number',    -- how long a worker may be dead before a sweep must have removed it
  '...workers',
}, function(a, argv)
  local function look_at_rooms(say, id, at)
    local rooms, counted, shared, listed = workers.rooms_of(id), redis.call('HGETALL', keys.worker_rooms(id)), false, true
    local differ = false
    for i = 1, #counted, 2 do differ = differ or rooms[counted[i]] ~= tonumber(counted[i + 1]) end
    for room in pairs(rooms) do shared = shared or workers.is_shared(room) end
    local function look_in(list)
      listed = listed and tonumber(redis.call('ZSCORE', list, id) or '') == at
    end
    for room in pairs(rooms) do
      differ = differ or redis.call('HEXISTS', keys.worker_rooms(id), room) == 0
      if shared == workers.is_shared(room) then look_in(workers.list_of(room)) end
    end
    if shared then look_in(keys.room_workers('*')) end
    say('rooms differ', differ)
    say('not in its rooms', not listed)
  end

  local answers = {}
  for i = 3, #argv do
    local id, words = argv[i], {}
    local function say(word, wrong) if wrong then words[#words + 1] = word end end
    local user, at, beat = unpack(redis.call('HMGET', keys.worker(id), 'user', 'at', 'beat'))
    if user and at and beat then
      local heard = tonumber(redis.call('ZSCORE', keys.worker_beats, id) or '')
      say('unlisted', tonumber(redis.call('ZSCORE', keys.workers, id) or '') ~= tonumber(at))
      say('never dead', not heard)
      say('dead', heard and store.clock_ms - heard > a.timeout_ms + a.grace_ms)
      look_at_rooms(say, id, tonumber(at))
    elseif redis.call('EXISTS', keys.worker(id)) == 1 then
      say('record broken', true)
    elseif redis.call('SISMEMBER', keys.dead_workers, id) == 1 then
      say('half removed', true)
    else
      say('left behind', redis.call('EXISTS', keys.worker_jobs(id), keys.worker_rooms(id), keys.worker_tasks(id),
        keys.worker_providers(id)) > 0)
    end
    answers[i - 2] = words
  end
  return answers
end)
