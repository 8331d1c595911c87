-- Reserved slots: those that are set aside for a bundle. They count under caps on what is served: room is kept for them.
local reserved_slots = {}

-- Set a slot aside no longer, and note for serving.opened the labels whose caps have room again.
function reserved_slots.drop(slot)
  local pool = redis.call('SREM', keys.reserved, slot) == 1 and store.has_served_caps and redis.call('HGET', keys.slot(slot), 'pool')
  for _, each in ipairs(pool and served_caps.above(pool) or {}) do
    if served_caps.taken(each[1]) == each[2] - 1 then call_state.roomy[#call_state.roomy + 1] = each[1] end
  end
end

return reserved_slots
