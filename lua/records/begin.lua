-- Take the turn at the records of a source, or keep it: one hub at a time cleans a source. A hub that does not tick any
-- more has lost its turn. Safe to repeat: whoever has it gets it again. Returns {'ok'} | {'taken', hub}
local source  = ARGV[1]
local hub_id  = ARGV[2]
local pass_id = ARGV[3]
local ttl_ms  = ARGV[4]
-- @include store
-- @include ticket
local turn = key_zombie_turn(source)
local mine = hub_id .. ' ' .. pass_id
local holder = redis.call('GET', turn)
if holder and holder ~= mine then
  local hub = string.match(holder, '^%S*')
  if heard(hub) then return {'taken', hub} end
end
redis.call('SET', turn, mine, 'PX', ttl_ms)
return {'ok'}
