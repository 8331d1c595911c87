-- Take the heartbeats of many nodes at once; each is answered on its own. Safe to repeat.
-- Returns per node: 0 (unknown, or slots of it were lost: register and publish again) | 1 (nothing new) | 2 (nothing new, draining)
--   | {version, draining, {slot, token, ...}, {slot to recycle, ...}}
local timeout_ms = ARGV[1]
-- @rest beats                       per node: raw id, id as part of a key, version it knows
-- @include store
-- @include time_text
local seen = time_text(now_ms)
local answers = {}
for i = 2, #ARGV, 3 do
  local id, part, version = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if redis.call('SISMEMBER', key_nodes, id) == 0 then
    answers[#answers + 1] = 0
  else
    redis.call('SET', key_node_alive(part), '1', 'PX', timeout_ms)
    redis.call('HSET', key_node(part), 'LastSeen', seen)
    redis.call('ZADD', key_beats, clock_ms, id)
    local duty = redis.call('HMGET', key_duty(part), 'version', 'drain', 'republish')
    if duty[3] then
      redis.call('HDEL', key_duty(part), 'republish')
      answers[#answers + 1] = 0
    elseif (duty[1] or '0') == version then
      answers[#answers + 1] = duty[2] and 2 or 1
    else
      local recycle = {}
      for _, field in ipairs(redis.call('HKEYS', key_duty(part))) do
        local slot = string.match(field, '^recycle:(.+)$')
        if slot and redis.call('EXISTS', key_recycle(slot)) == 1 then
          recycle[#recycle + 1] = slot
        elseif slot then
          redis.call('HDEL', key_duty(part), field)
        end
      end
      answers[#answers + 1] = {duty[1] or '0', duty[2] and 1 or 0, redis.call('HGETALL', key_lent(part)), recycle}
    end
  end
end
return answers
