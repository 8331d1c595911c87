-- The numbers and the token of a lease, as texts.
local lease_texts = {}

-- Return the texts of a lease that is made now and lasts `ttl_ms`. Many leases are made in the same millisecond and most last equally
-- long: the texts of the last call are used again where they are the same.
local last = {}
function lease_texts.of(ttl_ms)
  local now_ms, clock_ms = store.now_ms, store.clock_ms
  if last.now_ms == now_ms and last.clock_ms == clock_ms and last.ttl_ms == ttl_ms then return last end
  local whole = numbers.whole
  last = {now_ms = now_ms, clock_ms = clock_ms, ttl_ms = ttl_ms, now = whole(now_ms), clock = whole(clock_ms),
    deadline = whole(clock_ms + ttl_ms), visible = whole(now_ms + ttl_ms), ttl = whole(ttl_ms),
    ttl_s = string.format('%.14g', ttl_ms / 1000), since = times.text(now_ms)}
  return last
end

-- Return the next fencing token and store it. A token has more digits than a Lua number holds: the last nine are counted here and the
-- others stay text. When the nine overflow, Redis counts.
local last_token, last_high, last_low  -- the token that was issued last, whole and in its two parts
function lease_texts.next_token()
  if store.token ~= last_token then last_high, last_low = string.sub(store.token, 1, -10), string.sub(store.token, -9) + 0 end
  if last_high ~= '' and last_low < 999999999 then
    last_low = last_low + 1
    last_token = string.format('%s%09d', last_high, last_low)
    store.token = last_token
    redis.call('HSET', keys.store, 'token', last_token)
  else
    redis.call('HINCRBY', keys.store, 'token', 1)
    store.token = redis.call('HGET', keys.store, 'token')
  end
  return store.token
end

return lease_texts
