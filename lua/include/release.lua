-- @include end_grant
-- @include drop_slot
-- @include place_free
-- @include history
-- The record of a slot, as a table; item is nil when the hub has none.
local function read_slot(slot)
  local r = redis.call('HMGET', key_slot(slot), 'item', 'pool', 'node', 'part', 'place', 'label', 'run', 'policy',
    'unreported', 'before', 'unseen')
  return {slot = slot, item = r[1], pool = r[2], node = r[3], part = r[4], place = r[5], label = r[6], run = r[7],
    policy = r[8], unreported = r[9], before = r[10], unseen = r[11]}
end

-- End a grant and send its slot on; `what` and `why` go into the history. Returns whether the item was still in the
-- in-use list: a node may have removed it itself. A slot that its node has not reported since the store was lost is not
-- lent on.
local function release(slot, record, recycle_s, what, why)
  local listed = unlist(slot, record.pool, record.item, 'lent')
  end_grant(slot, record.label, record.run, record.part)
  redis.call('HDEL', key_slot(slot), 'label', 'run', 'granted_ms', 'visible_ms', 'watch_idle', 'before', 'unseen')
  note_slot(what, record, why)
  if recycle_s > 0 and record.policy ~= 'reuse' then mark_recycle(slot, record.part, recycle_s) end
  if listed and not record.unreported then
    if place_free(slot, record.part, record.pool, record.item) == 'lent' then
      redis.call('HSET', key_slot(slot), 'before', record.run or '')  -- a late repeat of his return means his own grant
    end
  else
    drop_slot(slot, record.pool, record.part)
    note_slot('slot.withdrawn', record, listed and 'unreported' or 'removed')
  end
  return listed
end
