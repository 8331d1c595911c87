-- The check that no ticket waits beside a free slot that it may have.
local doctor_waits = {}

-- Return whether a slot can be lent; `item` is that of its list.
local function is_lendable(slot, item)
  local record = redis.call('HMGET', keys.slot(slot), 'item', 'node', 'reported', 'part')
  return item and record[1] == item and not suspects.is_suspect(record[2], record[4], record[3])
end

-- Return whether one of the first 20 free items of a pool can be lent.
local function has_lendable(pool)
  for _, item in ipairs(redis.call('LRANGE', keys.available(pool), 0, 19)) do
    if is_lendable(items.glance(item) or '', item) then return true end
  end
end

-- Return whether one of the first 20 free slots of a class can be lent.
local function has_lendable_of(pool, class)
  for _, slot in ipairs(redis.call('ZRANGE', keys.free_in(pool .. ' ' .. class), 0, 19)) do
    local item = redis.call('HGET', keys.slot(slot), 'item')
    if item and redis.call('LPOS', keys.available(pool), item) and is_lendable(slot, item) then return true end
  end
end

-- Return whether the hub of the first ticket in a queue or a line ticks; where teams share the pool, of one of the first 20 whose team may
-- have a further lease.
local function is_attended(line, pool)
  local policy = teams.of(pool)
  for _, ticket in ipairs(redis.call('ZRANGE', line, 0, policy and 19 or 0)) do
    local hub, holder = unpack(redis.call('HMGET', keys.ticket(ticket), 'hub', 'holder'))
    local may = hub and not hubs.is_silent(hub, hubs.SILENT_MS)
    if may and not (policy and teams.at_ceiling(policy, holders.of(holder).team)) then return true end
  end
end

-- Return whether a pool may serve a label that is listed under this stem of the pool, or under '*'.
local function serves(pool, stem, label)
  if stem == '*' then return store.wildcards == '1' and pools.wild_serves(label, pool) end
  return label == stem and (stem == pool or store.prefix == '1') or stem == pool and store.trailing == '1'
end

-- Return whether a ticket waits that wants what a class has and that a pool may serve. Of each index the first are looked at.
local function is_wanted(pool, class)
  for _, stem in ipairs({'*', string.match(pool, '^[^:]+'), unpack(turns.stems(pool))}) do
    for _, label in ipairs(redis.call('ZRANGE', keys.fit(stem .. ' ' .. class), 0, 19)) do
      if serves(pool, stem, label) and not caps.reached(label) then
        for _, want in ipairs(redis.call('ZRANGE', keys.fitting(label .. ' ' .. class), 0, 9)) do
          if is_attended(lines.key_of(label, want), pool) then return true end
        end
      end
    end
  end
end

-- Note 'waited for' for a pool that has a slot to lend while a ticket waits that may have it.
function doctor_waits.check(say, _, pool)
  if store.settle_left_ms > 0 or redis.call('EXISTS', keys.maintenance(pool)) == 1 then return end
  local label = waiters.next_label(pool)
  local waited_for = label and not caps.reached(label) and is_attended(turns.plain(label), pool) and has_lendable(pool)
  for _, class in ipairs(redis.call('ZRANGE', keys.free_classes(pool), 0, -1)) do
    waited_for = waited_for or is_wanted(pool, class) and has_lendable_of(pool, class)
  end
  say('waited for', waited_for and not served_caps.reached(pool))
end

return doctor_waits
