-- End what is still lent of a node whose drain deadline has passed on the hub clock; its slots are held back. In bites;
-- safe to repeat, and a node that was undrained or given more time meanwhile is left alone.
-- Returns {'more' | 'done', cursor of the next bite, {slots whose grant ended}} | {'nothing'}
local id     = ARGV[1]
local part   = ARGV[2]
local cursor = ARGV[3]               -- '0' to begin with
local limit  = tonumber(ARGV[4])     -- grants ended per bite, at most
-- @include store
-- @include release
-- @include serve
local due = redis.call('ZSCORE', key_drain_deadlines, id)
if not due then return {'nothing'} end
if redis.call('SISMEMBER', key_nodes, id) == 0 or redis.call('HEXISTS', key_duty(part), 'drain') == 0 then
  redis.call('ZREM', key_drain_deadlines, id)
  return {'nothing'}
end
if tonumber(due) > clock_ms then return {'nothing'} end
local ended = {}
local page = redis.call('SSCAN', key_node_slots(part), cursor, 'COUNT', limit)
local after, whole = page[1], true
for _, slot in ipairs(page[2]) do
  if redis.call('HGET', key_slot(slot), 'place') == 'lent' then
    if #ended == limit then  -- small sets come as a whole: look at this page once more
      after, whole = cursor, false
      break
    end
    revoke(slot, grace_of_hubs())
    release(slot, read_slot(slot), 120, 'grant.ended', 'deadline')
    ended[#ended + 1] = slot
  end
end
serve_opened()
if whole and after == '0' then
  redis.call('ZREM', key_drain_deadlines, id)
  return {'done', after, ended}
end
return {'more', after, ended}
