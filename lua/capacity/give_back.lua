-- End a grant because its borrower or its node gives it back: the slot goes to whoever waits for it, else to the tail of
-- its pool, marked for replacement. A call that means an earlier grant, by its token or its run, changes nothing.
-- Safe to repeat: the same request id gets the first answer again.
-- Returns {'returned' | 'ended' (its node had removed it) | 'not lent' | 'stale token', pool or '', run or '', the token
--   of what has ended by that or ''}
local slot    = ARGV[1]
local hint    = ARGV[2]              -- the label the caller names: used for slots the hub has no record of
local token   = ARGV[3]              -- '' when the caller has none
local run     = ARGV[4]              -- '' when the caller names none
local request = ARGV[5]              -- request id
local keep_s  = ARGV[6]              -- how long its answer is remembered
local revokes = ARGV[7]              -- '1': an operator ends it, '2': at once, without a grace for its holder; '' else
-- @include store
-- @include release
-- @include serve
-- @include item
-- @include new_slot
-- @include missing_grant
local before = redis.call('GET', key_request(request))
if before then
  local same, word, ended = string.match(before, '^return|(.*)|(%l[%l ]*)|?(%d*)$')  -- the token: the hub is to remember it
  return {same == slot and word or 'reused', '', '', same == slot and ended or ''}
end
local session = redis.call('HMGET', key_session(slot), 'leaseToken', 'runId', 'labelKey', 'poolLabel')

local function find_lent(pool, wanted)
  for _, item in ipairs(redis.call('LRANGE', key_inuse(pool), 0, 999)) do
    if glance(item) == wanted then return item end
  end
end
local function done(word, pool, of_run, ended)
  ended = ended or ''
  redis.call('SET', key_request(request), 'return|' .. slot .. '|' .. word .. (ended ~= '' and '|' .. ended or ''), 'EX', keep_s)
  serve_opened()
  return {word, pool or '', of_run or '', ended}
end

if token ~= '' and session[1] ~= token then
  if believed_in(slot) and redis.call('HGET', key_revoked_tokens, slot) == token then  -- he was told, and says that he has stopped
    forget_revoked(slot)
    offer_again(slot)
  end
  if not missing_grant(slot, token, session[1]) then return done('stale token') end
  note_ended(slot, token)  -- when its node or its hub says that it is lent, that is late
  return done('ended', '', '', token)
end
local record = read_slot(slot)
local late = record.unseen or (run ~= '' and run == record.before and run ~= record.run)
if token == '' and record.place == 'lent' and late then return done('not lent', record.pool) end
if not record.item then
  -- Lent by another program: where its session says, where the caller says, or, with a session, in any pool.
  local pools = {session[4] or hint, session[3] or hint, hint}
  if session[3] then
    for _, pool in ipairs(redis.call('ZRANGE', key_pools, 0, 99)) do pools[#pools + 1] = pool end
  end
  for _, pool in ipairs(pools) do
    local item = record.item == false and find_lent(pool, slot)
    if item then
      local _, node, idle_ms = read_item(item)
      new_slot(slot, item, pool, node, key_part(node), idle_ms, 'recycle')
      redis.call('HSET', key_slot(slot), 'place', 'lent', 'label', session[3] or pool, 'run', session[2] or '')
      record = read_slot(slot)
      note_slot('slot.adopted', record, '')
    end
  end
end
if record.place ~= 'lent' then
  if record.policy ~= 'reuse' then mark_recycle(slot, record.part, 120) end
  end_grant(slot, session[3], session[2], record.part)
  if session[3] then
    note_slot('grant.returned', {slot = slot, node = record.node, pool = record.pool or session[4], label = session[3],
      run = session[2]}, 'removed')
  end
  return done('not lent', record.pool)
end
if revokes ~= '' then revoke(slot, revokes == '1' and grace_of_hubs() or 0) end
local listed = release(slot, record, 120, 'grant.returned', '')
return done(listed and 'returned' or 'ended', record.pool, record.run or session[2], session[1])
