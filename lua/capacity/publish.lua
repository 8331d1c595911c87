-- Put a node's slots on offer, at the tail of their pools. Safe to repeat: a slot that is known keeps its place.
-- A slot that the node reports as lent, or that a hub has brought back as lent, stays lent with its token.
-- A process that is not the node any more, and a call that is older than one for the same slot that was carried out, change
-- nothing. Returns {'ok', a word per slot: 'published' | 'unchanged' | 'lent' | 'taken' (another node's) | 'late' (it was
-- withdrawn since)} | {'unknown'} | {'superseded'}
local id     = ARGV[1]
local part   = ARGV[2]
local policy = ARGV[3]               -- 'recycle' | 'reuse'
local ttl_ms = tonumber(ARGV[4])     -- the lease of slots adopted as lent
local incarnation = ARGV[5]          -- '' of plain clients
local said_number = ARGV[6]               -- of this call, which only rises in an incarnation; '' of plain clients
-- @rest slots                       per slot: id, pool, item, own idle rule in ms or '', token or ''
-- @include store
-- @include release
-- @include new_slot
-- @include lend
-- @include reported_grant
-- @include still_listed
-- @include serve
-- @include told
if redis.call('SISMEMBER', key_nodes, id) == 0 then return {'unknown'} end
local says, number = caller(part, incarnation, said_number)
if says ~= 'own' then return {says} end
local words = {}
for i = 7, #ARGV, 5 do
  local slot, pool, item, idle_ms, token = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local record = read_slot(slot)
  local late, word = told_since(slot, part, record.item, incarnation, number), nil
  local unchanged = record.item == item and record.pool == pool
    and still_listed(record.pool, record.item, record.place)
  if not is_live(slot, token) then token = '' end
  if record.item and record.part ~= part then
    word = 'taken'
  elseif late then
    word = record.item and (record.place == 'lent' and 'lent' or 'unchanged') or 'late'
  elseif record.place == 'lent' and not above(token, redis.call('HGET', key_session(slot), 'leaseToken') or token) then
    redis.call('HDEL', key_slot(slot), 'unreported')
    redis.call('HSET', key_slot(slot), 'reported', opened[1])
    word = 'lent'
  elseif unchanged and token == '' then
    redis.call('HSET', key_slot(slot), 'policy', policy, 'reported', opened[1])
    if redis.call('SREM', key_aside(part), slot) == 1 and record.place == 'held' then
      place_free(slot, part, pool, item)
    end
    word = 'unchanged'
  else
    if record.item then
      if record.place == 'lent' then end_grant(slot, record.label, record.run, record.part) end
      unlist(slot, record.pool, record.item, record.place)
      drop_slot(slot, record.pool, record.part)
    end
    redis.call('DEL', key_recycle(slot))
    new_slot(slot, item, pool, id, part, idle_ms, policy)
    redis.call('HSET', key_slot(slot), 'reported', opened[1])
    if token ~= '' then
      lend({slot = slot, item = item, pool = pool, node = id, part = part, label = pool, run = '', token = token,
        ttl_ms = as_renewed(slot, token, ttl_ms), idle_ms = 0})
      note_slot('grant.adopted', {slot = slot, node = id, pool = pool, label = pool}, 'reported')
      word = 'lent'
    else
      note_slot('slot.published', {slot = slot, node = id, pool = pool}, '')
      redis.call('SREM', key_replacing(pool), slot)
      place_free(slot, part, pool, item)
      word = 'published'
    end
  end
  if not late and word ~= 'taken' then note_published(slot, part, incarnation, number) end
  words[#words + 1] = word
end
if reporting then redis.call('HSET', key_duty(part), 'reported', opened[1]) end
serve_opened()
return {'ok', words}
