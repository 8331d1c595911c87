-- After the store came back empty or older: a hub says what it lent a moment ago, so that it is not lent again.
-- Safe to repeat, and too late when nodes have had their time to report. A grant the store knows, or a later one of the
-- same slot, is left alone, and so is one that has ended since.
-- Returns {'adopted' | 'kept'}
local slot    = ARGV[1]
local pool    = ARGV[2]
local item    = ARGV[3]
local node    = ARGV[4]
local part    = ARGV[5]
local label   = ARGV[6]
local run     = ARGV[7]
local token   = ARGV[8]
local ttl_ms  = tonumber(ARGV[9])
-- @include store
-- @include release
-- @include new_slot
-- @include lend
-- @include reported_grant
local record = read_slot(slot)
-- It was delivered, whatever the store remembers of that.
if redis.call('HGET', key_session(slot), 'leaseToken') == token then redis.call('HDEL', key_slot(slot), 'unseen') end
if not is_live(slot, token) then return {'kept'} end
if record.place == 'lent' then
  if not above(token, redis.call('HGET', key_session(slot), 'leaseToken') or token) then return {'kept'} end
  end_grant(slot, record.label, record.run, record.part)  -- it had ended in what was lost
end
if record.item then
  unlist(slot, record.pool, record.item, record.place)
  redis.call('HDEL', key_slot(slot), 'unseen', 'before')
else
  new_slot(slot, item, pool, node, part, '', 'recycle')
  redis.call('HSET', key_slot(slot), 'unreported', '1')
end
lend({slot = slot, item = record.item or item, pool = record.pool or pool, node = node, part = part, label = label,
  run = run, token = token, ttl_ms = as_renewed(slot, token, ttl_ms), idle_ms = 0})
note_slot('grant.adopted', {slot = slot, node = node, pool = record.pool or pool, label = label, run = run}, 'recalled')
return {'adopted'}
