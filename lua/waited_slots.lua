-- Slots for which a worker has waited: a bundle that is lent to it before it claims the task.
local waited_slots = {}

-- Return whether a bundle for which a worker has waited belongs to no task yet.
function waited_slots.is_free(bundle)
  local live = bundles.live(bundle)
  for _, each in ipairs(live) do
    if bundles.task_of(redis.call('HGET', keys.session(each[1]), 'holder')) then return false end
  end
  return live[1] ~= nil
end

-- Return whether what was lent to a ticket has ended, or is a task's by now.
function waited_slots.are_over(ticket)
  local token = string.match(redis.call('GET', keys.request(ticket)) or '', '^.-|.*|(%d+)|')
  return token ~= nil and not waited_slots.is_free(bundles.id_of(token))
end

-- Return whether a bundle has all that the tasks of a job need now.
function waited_slots.fits(bundle, wish)
  local live, node = bundles.live(bundle), nil
  for n, unit in ipairs(wish and #wish.units == #live and wish.units or {}) do
    local pool, class, its_node = unpack(redis.call('HMGET', keys.slot(live[n][1]), 'pool', 'class', 'node'))
    local suits = pool and pools.serves(unit.label, pool) and (unit.want == '' or wants.suits(unit.want, class))
    if not suits or (wish.same_node and node and its_node ~= node) then return false end
    node = its_node
  end
  return node ~= nil
end

return waited_slots
