-- Take the heartbeats of many nodes at once; each is answered on its own. Safe to repeat.
-- The slots of a node that was suspect are lent again, 256 at a time.
-- Returns per node: 0 (unknown, or slots of it were lost: register and publish again) | 1 (nothing new)
--   | 2 (nothing new, draining) | 3 (superseded: another process is the node, and this one is to stop)
--   | {version, draining, {slot, token, ...}, {slot to recycle, ...}, what is offered in short, or '',
--     number of the last drain or undrain or '', ms until the deadline of the drain or -1}
local timeout_ms = ARGV[1]
-- @rest beats                       per node: raw id, id as part of a key, version it knows, incarnation or ''
-- @include store
-- @include time_text
-- @include resume
-- @include serve
-- @include speaker
-- @include offers
local ids = {}
for i = 2, #ARGV, 4 do ids[#ids + 1] = ARGV[i] end
local registered = redis.call('SMISMEMBER', key_nodes, unpack(ids))
local readings, duties = {}, {}
for i, id in ipairs(ids) do
  local part, incarnation = ARGV[i * 4 - 1], ARGV[i * 4 + 1]
  local duty = registered[i] == 1 and redis.call('HMGET', key_duty(part), 'version', 'drain', 'republish', 'suspect',
    'reported', 'incarnation')
  local word = duty and (incarnation == '' and 'own' or speaker(part, incarnation, duty[6]))
  duties[i] = word == 'own' and duty or word == 'superseded' and 3 or 0
  if word == 'own' then  -- no other keeps the node alive
    readings[#readings + 1] = clock_ms
    readings[#readings + 1] = id
  end
end
if #readings > 0 then redis.call('ZADD', key_beats, unpack(readings)) end

local function recycle_list(part)
  local found = {}
  for _, field in ipairs(redis.call('HKEYS', key_duty(part))) do
    local slot = string.match(field, '^recycle:(.+)$')
    if slot and redis.call('EXISTS', key_recycle(slot)) == 1 then
      found[#found + 1] = slot
    elseif slot then
      redis.call('HDEL', key_duty(part), field)
    end
  end
  return found
end

local seen = time_text(now_ms)
local function beat(id, part, version, incarnation, duty)
  redis.call('SET', key_node_alive(part), '1', 'PX', timeout_ms)
  redis.call('HSET', key_node(part), 'LastSeen', seen)
  if reporting and duty[5] ~= opened[1] and redis.call('EXISTS', key_node_slots(part)) == 1 then return 0 end
  if duty[4] then
    resume(id, part)
    duty[1] = redis.call('HGET', key_duty(part), 'version')
  end
  if duty[3] then
    redis.call('HDEL', key_duty(part), 'republish')
    return 0
  end
  if (duty[1] or '0') == version then return duty[2] and 2 or 1 end
  local due = incarnation ~= '' and duty[2] and redis.call('ZSCORE', key_drain_deadlines, id)
  return {duty[1] or '0', duty[2] and 1 or 0, redis.call('HGETALL', key_lent(part)), recycle_list(part),
    incarnation ~= '' and offers_of(part) or '', redis.call('HGET', key_duty(part), 'drain_number') or '',
    due and math.max(0, math.floor(tonumber(due) - clock_ms)) or -1}
end
local answers = {}
for i = 1, #ids do
  local duty, at = duties[i], i * 4
  answers[i] = type(duty) == 'number' and duty or beat(ids[i], ARGV[at - 1], ARGV[at], ARGV[at + 1], duty)
end
serve_opened()
return answers
