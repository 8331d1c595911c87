-- The brake of a sweeper, one for all hubs. A pass says whether too many nodes are stale at once, and gets to know
-- how many it may expire: `limit` per interval, whichever hub sweeps; none in the first `grace_ms`, which nodes that are
-- alive need to be heard again, and none while nobody at all is heard: then it is us, and whoever is heard first begins
-- the grace anew. (Of nodes: all workers may well be gone at once, and what they held is waited for.) Of workers, many that
-- are silent while most others are heard are gone, unless the store was away a timeout ago or less, or there was a pass in
-- which nobody was heard: then those that are alive may only be late. A release lets all of them go at once. Safe to
-- repeat: the same pass, the same answer.
-- Returns {word, number}: 'off' | 'ended' (not too many any more) | 'engaged' (by this pass) | 'held' (it was before)
--   | 'released' (by an operator, until they are not too many any more, and not for ever)
local pass_id    = ARGV[1]              -- of the pass
local too_many   = ARGV[2]              -- '1' | '0'
local stale      = tonumber(ARGV[3])
local registered = tonumber(ARGV[4])
local limit      = tonumber(ARGV[5])
local window_ms  = tonumber(ARGV[6])    -- the interval
local grace_ms   = tonumber(ARGV[7])    -- one node timeout
local dry_run    = ARGV[8]              -- '1': nothing changes
local of         = ARGV[9]              -- nodes | workers
local others     = ARGV[10]             -- of workers, whether others are heard: most | some | none
-- @include store
-- @include reporting
-- @include time_text
-- @include history
local brake = of == 'workers' and key_worker_brake or key_brake
local was = redis.call('HMGET', brake, 'state', 'pass', 'word', 'allowed', 'window', 'spent', 'released_until_ms',
  'since_ms', 'stale', 'registered', 'unsure')
local state = was[1]
if of == 'workers' then reporting = false end  -- a thing of nodes: the brake of workers works at all times
local unsure = of == 'nodes' or others == 'none' or was[11] == '1' or (opened[8] and clock_ms - opened[8] < grace_ms)
if others == 'most' and (not unsure or state) then too_many = '0' end
local was_deaf = of == 'nodes' and was[9] and tonumber(was[9]) >= tonumber(was[10] or '1')
-- Fewer are stale, and the others are about to be heard as well: the grace is theirs to the end.
local graced = state == 'engaged' and stale > 0 and unsure and (was_deaf or clock_ms - tonumber(was[8] or clock_ms) < grace_ms)
if too_many ~= '1' and not graced then
  if not state then return {'off', stale} end
  if dry_run ~= '1' then
    redis.call('DEL', brake)
    note('brake.ended', 'of', of, 'stale', stale)
  end
  return {'ended', stale}
end
if was[2] == pass_id then return {was[3], tonumber(was[4])} end
if reporting and not state then return {'off', stale} end  -- the store was away: nobody is expired now

local lapsed = state == 'released' and clock_ms >= tonumber(was[7])
local word = (not state or lapsed) and 'engaged' or state == 'engaged' and 'held' or 'released'
local window, spent = tonumber(was[5] or '0'), tonumber(was[6] or '0')
if not was[5] or clock_ms - window >= window_ms then window, spent = clock_ms, 0 end
local deaf = of == 'nodes' and (stale >= registered or was_deaf)  -- now, or in the pass before
local since_ms = (word == 'engaged' or deaf) and clock_ms or tonumber(was[8] or clock_ms)
local left = (reporting or clock_ms - since_ms < grace_ms) and 0 or limit - spent
local allowed = word == 'released' and stale or math.min(stale, math.max(0, left))
if dry_run == '1' then return {word, allowed} end

if word == 'engaged' then
  redis.call('HDEL', brake, 'released_by', 'released_at', 'released_until_ms')
  redis.call('HSET', brake, 'state', 'engaged', 'since', time_text(now_ms))
  note('brake.engaged', 'of', of, 'stale', stale, 'registered', registered, 'limit', limit)
end
redis.call('HSET', brake, 'pass', pass_id, 'word', word, 'allowed', allowed, 'window', window, 'spent', spent + allowed,
  'stale', stale, 'registered', registered, 'limit', limit, 'held', stale - allowed, 'seen', time_text(now_ms),
  'since_ms', since_ms, 'unsure', unsure and '1' or '0')
return {word, allowed}
