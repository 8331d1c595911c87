-- The store of a call: one record, hub:store, which every call reads first.
local store = {}
local opened = {}  -- 'database key' of each store that was opened on this server -> its generation
local clustered = {}  -- 'database key' of the same stores -> whether it is in a cluster
local database
local number = numbers.again

-- Select the store that a call names. `opened_as` is lost when the server is restarted, a replica takes over, or the library is loaded
-- again: then it is not known what the store has lost, and every call is refused until store/open has run here.
function store.choose(key, of_database)
  if key == keys.store and of_database == database then return end
  database = of_database
  store.database = of_database
  keys.use(key, database)
  store.opened_as, store.in_cluster = opened[database .. ' ' .. key], clustered[database .. ' ' .. key]
end

-- Note that this server has opened the store with this generation.
function store.open_as(generation, in_cluster)
  opened[database .. ' ' .. keys.store], clustered[database .. ' ' .. keys.store] = generation, in_cluster
  store.opened_as, store.in_cluster = generation, in_cluster
end

function store.is_shut() return redis.error_reply('UNOPENED no hub has opened this store') end
-- Read the record of the store into these fields, and refuse a call that comes too late:
-- * now_ms and now_us: the time of the Redis server.
-- * clock_ms: the hub clock. It moves only while a hub can hear, at most two tick periods (2 x 500 ms) past the last tick. When no hub
--   has ticked for more than four periods that was an outage, and none of it counts: some nodes are expired after a second of silence.
-- * reporting: after the server was restarted or emptied, nodes have one timeout to report their slots and leases.
-- * hearing: the same time is given after a store was made, for hubs may be new as well while nodes and borrowers are not. After that
--   no lease is believed any more that the store does not know.
-- * revoking: whether a last holder may still believe in a lease that ended early.
-- * freshens, holds, job_terms: whether a slot with the policy `fresh` was ever published, one was ever held, a job ever had needs or
--   limits; rules, teams: last number or ''; matching: a number that changes with the classes of slots, or false; bundles: any waits.
-- told_of, told_ms: generation and hub clock that the calling hub heard last ('' from a program that does not tick). The call is
-- refused when the generation is another one or the hub has not ticked for six periods: its callers may have asked another hub since.
-- until_ms: the hub clock until which the caller waits, or ''; later the call is refused. Returns the refusal, or nil.
function store.begin(told_of, told_ms, until_ms)
  local time = redis.call('TIME')
  local said = redis.call('HMGET', keys.store, 'generation', 'clock_ms', 'tick_ms', 'settle_ms', 'options', 'timeout_ms',
    'reopened_ms', 'waiting', 'capped', 'token', 'born_ms', 'revoked_ms', 'limits', 'freshens', 'holds', 'rules',
    'served_capped', 'matching', 'bundles', 'teams', 'job_terms')
  if not said[1] or said[1] ~= store.opened_as then return store.is_shut() end
  local seconds, micros = number(1, time[1]), tonumber(time[2])
  local now_ms = seconds * 1000 + math.floor(micros / 1000)
  local silence_ms = math.max(0, now_ms - number(2, said[3]))
  local clock_ms = number(3, said[2]) + (silence_ms > 2000 and 0 or math.min(silence_ms, 1000))
  local is_late = told_of ~= '' and (told_of ~= said[1] or clock_ms - told_ms > 3000)
  if is_late then return redis.error_reply('LATE this hub did not know how the store stands; nothing was done') end
  if until_ms ~= '' and clock_ms > tonumber(until_ms) then
    return redis.error_reply('OVERDUE the caller waits no longer; nothing was done')
  end
  store.now_ms, store.now_us, store.clock_ms, store.generation = now_ms, seconds * 1000000 + micros, clock_ms, said[1]
  store.resumes = silence_ms > 2000
  store.settle_ms, store.settle_left_ms = said[4], (said[4] and number(4, said[4]) or 0) - clock_ms
  if said[5] ~= store.options or not store.trailing then  -- trailing, prefix and wildcards, each '1' or '0'
    store.options = said[5]
    store.trailing, store.prefix, store.wildcards = string.match(said[5] or '110', '(.)(.)(.)')
  end
  local timeout_ms = said[6] and number(5, said[6])
  store.node_timeout_ms, store.reopened_ms, store.token = timeout_ms, said[7], said[10] or '0'
  store.reporting = said[7] and timeout_ms and clock_ms - number(6, said[7]) < timeout_ms
  store.hearing = store.reporting or (said[11] and timeout_ms and clock_ms - number(7, said[11]) < timeout_ms)
  store.anybody_waits, store.has_caps, store.has_served_caps = said[8] == '1', said[9] == '1', said[17] == '1'
  store.revoked_ms, store.matching, store.revoking = said[12], said[18], said[12] and number(8, said[12]) > clock_ms
  store.freshens, store.holds, store.bundles, store.job_terms = said[14] == '1', said[15] == '1', said[19] == '1', said[21] == '1'
  store.rules, store.teams = said[16] or '', said[20] or ''
  allowances.read(said[13] or '')
  call_state.begin()
end

-- Return an instant in microseconds that is later than all before: things are ordered by when they were made.
function store.next_us()
  call_state.last_us = call_state.last_us or tonumber(redis.call('HGET', keys.store, 'last_us') or '0')
  call_state.last_us = math.max(call_state.last_us + 1, store.now_us)
  redis.call('HSET', keys.store, 'last_us', call_state.last_us)
  return call_state.last_us
end

return store
