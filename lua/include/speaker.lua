-- Whether a call speaks for a node: 'own' (or it does not say who it is, as plain clients), 'superseded' (another process
-- has registered under this id since, or this one has left), 'unknown' (the store has lost it: it is to register again).
local function speaker(part, incarnation, current)
  if incarnation == '' or not current or current == incarnation then return 'own' end
  return redis.call('LPOS', key_incarnations(part), incarnation) and 'superseded' or 'unknown'
end

-- Remember that an incarnation is over: whatever of it still comes is late. An hour, and 32 of them, are far more than a
-- call can wait anywhere.
local function retire_incarnation(part, incarnation)
  redis.call('LPUSH', key_incarnations(part), incarnation)
  redis.call('LTRIM', key_incarnations(part), 0, 31)
  redis.call('EXPIRE', key_incarnations(part), 3600)
end
