-- @include end_grant
-- @include match
-- @include next_waiter
-- @include hand_on
-- Serve waiters from slots that are free already: a cap was raised or a grant under it ended, a maintenance is over,
-- a node came back, another program put slots into a list. At most 32 in one script.
local served = 0

-- From one pool, to whoever is next.
local function serve_pool(pool)
  while somebody_waits() and settle_left_ms <= 0 and served < 32 do
    local waiter = next_waiter(pool)
    local found = waiter and take(pool)
    if not found then return end
    hand_on(waiter, found)
    served = served + 1
  end
end

-- From whatever pools a label may use, while somebody waits for it.
local function serve_label(label)
  reoffer(label)
  while settle_left_ms <= 0 and served < 32 and redis.call('EXISTS', key_line(label)) == 1 and not capped(label) do
    local found = match(label)
    if not found then return end
    local waiter = next_waiter(found.pool)
    if not waiter then
      redis.call('LPUSH', key_available(found.pool), found.item)
      open_pool(found.pool)
      return
    end
    hand_on(waiter, found)
    served = served + 1
  end
end

-- What the changes of this script have made possible.
local function serve_opened()
  if not somebody_waits() then return end
  for _, label in ipairs(headroom) do serve_label(label) end
  for _, pool in ipairs(reopened) do serve_pool(pool) end
end
