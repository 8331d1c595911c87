-- Map a slot to a test, and to a run when it has none yet. Safe to repeat. Returns {'ok'}
local slot = ARGV[1]
local test = ARGV[2]
local run  = ARGV[3]                 -- '' for none
-- @include store
redis.call('SET', key_browser_test(slot), test, 'EX', 21600)
if run ~= '' then redis.call('SET', key_browser_run(slot), run, 'EX', 21600, 'NX') end
return {'ok'}
