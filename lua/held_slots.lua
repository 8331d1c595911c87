-- Held slots: they are in no list. What keeps a slot from being lent.
local held_slots = {}

-- Return whether a slot is held back: its node drains, its last holder may still believe in a lease that ended early, its node has not
-- made it fresh, or it is unwell.
function held_slots.has_reason(slot, part)
  return drains.holds_back(part) or revocations.believed_in(slot) or freshness.is_owed(slot) or holds.of(slot)
end

return held_slots
