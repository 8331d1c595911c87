-- Take the heartbeats of many nodes at once; each is answered on its own. Safe to repeat.
-- The slots of a node that was suspect are lent again, 256 at a time.
-- Returns per node: 0 (unknown, or slots of it were lost: register and publish again) | 1 (nothing new)
--   | 2 (nothing new, draining) | {version, draining, {slot, token, ...}, {slot to recycle, ...}}
local timeout_ms = ARGV[1]
-- @rest beats                       per node: raw id, id as part of a key, version it knows
-- @include store
-- @include time_text
-- @include resume
-- @include serve
local ids = {}
for i = 2, #ARGV, 3 do ids[#ids + 1] = ARGV[i] end
local registered = redis.call('SMISMEMBER', key_nodes, unpack(ids))
local readings = {}
for i, id in ipairs(ids) do
  if registered[i] == 1 then
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
local function beat(id, part, version)
  redis.call('SET', key_node_alive(part), '1', 'PX', timeout_ms)
  redis.call('HSET', key_node(part), 'LastSeen', seen)
  local duty = redis.call('HMGET', key_duty(part), 'version', 'drain', 'republish', 'suspect', 'reported')
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
  return {duty[1] or '0', duty[2] and 1 or 0, redis.call('HGETALL', key_lent(part)), recycle_list(part)}
end
local answers = {}
for i = 1, #ids do
  answers[i] = registered[i] == 1 and beat(ids[i], ARGV[i * 3], ARGV[i * 3 + 1]) or 0
end
serve_opened()
return answers
