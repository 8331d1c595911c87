-- Give back the turn at the records of a source, if this pass still has it. Safe to repeat. Returns {'ok'}
local source  = ARGV[1]
local hub_id  = ARGV[2]
local pass_id = ARGV[3]
-- @include store
local turn = key_zombie_turn(source)
if redis.call('GET', turn) == hub_id .. ' ' .. pass_id then redis.call('DEL', turn) end
return {'ok'}
