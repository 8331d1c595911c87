-- Look at workers: each is known, heard and listed everywhere or nowhere, and of one that is gone nothing is left but what is
-- being failed. Changes nothing.
-- Returns per worker a list of words; hub/doctor/job_words.py says what each means.
local timeout_ms = tonumber(ARGV[1])
local grace_ms   = tonumber(ARGV[2])   -- how long a worker may be dead before a sweep must have removed it
-- @rest workers
-- @include worker_rooms
local function look_at_rooms(say, id, at)
  local rooms, counted, shared, listed = rooms_of(id), redis.call('HGETALL', key_worker_rooms(id)), false, true
  local differ = false
  for i = 1, #counted, 2 do differ = differ or rooms[counted[i]] ~= tonumber(counted[i + 1]) end
  for room in pairs(rooms) do shared = shared or is_shared(room) end
  local function look_in(list)
    listed = listed and tonumber(redis.call('ZSCORE', list, id) or '') == at
  end
  for room in pairs(rooms) do
    differ = differ or redis.call('HEXISTS', key_worker_rooms(id), room) == 0
    if shared == is_shared(room) then look_in(workers_of(room)) end
  end
  if shared then look_in(key_room_workers('*')) end
  say('rooms differ', differ)
  say('not in its rooms', not listed)
end

local answers = {}
for i = 3, #ARGV do
  local id, words = ARGV[i], {}
  local function say(word, wrong) if wrong then words[#words + 1] = word end end
  local user, at, beat = unpack(redis.call('HMGET', key_worker(id), 'user', 'at', 'beat'))
  if user and at and beat then
    local heard = tonumber(redis.call('ZSCORE', key_worker_beats, id) or '')
    say('unlisted', tonumber(redis.call('ZSCORE', key_workers, id) or '') ~= tonumber(at))
    say('never dead', not heard)
    say('dead', heard and clock_ms - heard > timeout_ms + grace_ms)
    look_at_rooms(say, id, tonumber(at))
  elseif redis.call('EXISTS', key_worker(id)) == 1 then
    say('record broken', true)
  elseif redis.call('SISMEMBER', key_dead_workers, id) == 1 then
    say('half removed', true)
  else
    say('left behind', redis.call('EXISTS', key_worker_jobs(id), key_worker_rooms(id), key_worker_tasks(id),
      key_worker_providers(id)) > 0)
  end
  answers[i - 2] = words
end
return answers
