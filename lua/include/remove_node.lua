-- @include end_grant
-- @include drop_slot
-- @include owner_of
-- @include history
-- @include revoke
-- Drop up to `limit` slots of a node wherever they are, ending their grants. Returns slots dropped, grants ended, left.
local function prune(part, limit)
  local ended = {}
  local slots = redis.call('SPOP', key_node_slots(part), limit)
  for _, slot in ipairs(slots) do
    local record = redis.call('HMGET', key_slot(slot), 'item', 'pool', 'place', 'label', 'run', 'node')
    local of = {slot = slot, node = record[6], pool = record[2], label = record[4], run = record[5]}
    if record[1] then unlist(slot, record[2], record[1], record[3]) end
    if record[3] == 'lent' then
      revoke(slot, grace_of_hubs())
      end_grant(slot, record[4], record[5], part)
      note_slot('grant.ended', of, 'node')
      ended[#ended + 1] = slot
    end
    if record[2] then
      drop_slot(slot, record[2], part)
      note_slot('slot.withdrawn', of, 'node')
    end
    redis.call('SET', key_recycle(slot), '1', 'EX', 300)
  end
  local left = redis.call('SCARD', key_node_slots(part))
  if left == 0 then
    redis.call('DEL', key_duty(part), key_lent(part), key_aside(part), key_withdrawn(part))
    redis.call('HDEL', key_leaving, part)
  end
  return #slots, ended, left
end

-- Take a node off the books and drop its first slots; the rest waits in `leaving` for the next bite. An id that only
-- looks like that of another node, as part of a key, takes nothing of it along.
local function remove_node(id, part, limit)
  local owner = owner_of(part)
  redis.call('SREM', key_nodes, id)
  redis.call('ZREM', key_beats, id)
  if owner and owner ~= id then return 0, {}, 0 end
  redis.call('SREM', key_draining, id)
  redis.call('SREM', key_suspects, id)
  redis.call('DEL', key_node(part), key_node_alive(part))
  redis.call('HSET', key_leaving, part, id)
  return prune(part, limit)
end
