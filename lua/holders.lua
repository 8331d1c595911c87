-- Holders: who borrowed a slot, and who may end its lease. A holder is a JSON text: {"user", "team", "name", "client"}, `userId` where
-- a user borrowed, and `runName` where the run has a name. `user` and `team` are null where a shared secret borrowed.
local holders = {}

local NOBODY = {user = '', user_id = '', team = '', name = ''}

local function text(value) return type(value) == 'string' and value or '' end

-- Return the holder that a JSON text describes: user user_id team name; texts, '' for what is not known. The holder that was read last
-- is kept, as a call reads the same text several times.
local last_text, last = '', NOBODY
function holders.of(holder)
  if not holder or holder == '' then return NOBODY end
  if holder ~= last_text then
    local good, said = pcall(cjson.decode, holder)
    if not good or type(said) ~= 'table' then return NOBODY end
    last_text = holder
    last = {user = text(said.user), user_id = text(said.userId), team = text(said.team), name = text(said.name)}
  end
  return last
end

-- Note in the record of a lent slot who holds it; a shared secret leaves `user`, `user_id` and `team` out.
function holders.note(slot, holder)
  local said = holders.of(holder)
  if said.user_id == '' then return end
  redis.call('HSET', keys.slot(slot), 'user', said.user, 'user_id', said.user_id)
  if said.team ~= '' then redis.call('HSET', keys.slot(slot), 'team', said.team) end
end

-- Forget in the record of a slot the lease that has ended, and who held it.
function holders.forget(slot)
  redis.call('HDEL', keys.slot(slot), 'label', 'run', 'granted_ms', 'visible_ms', 'watch_idle', 'idle_visible_ms', 'seen_ms',
    'began', 'holder', 'user', 'user_id', 'team')
end

-- Return whether a lease or a ticket is another caller's. `holder` is that of its session, which each end of a lease deletes, also one
-- by an older hub. `by` is the id of the user that calls, '' for a shared secret, 'node' for its node or 'operator', which may end any.
-- The holder of a lease that another program made, or that its node brought back without a word of it, is not known (`holder` is nil
-- or ''): the lease is anybody's who knows its token, as it always was.
function holders.is_foreign(by, holder, knows_token)
  if by == 'node' or by == 'operator' then return false end
  if not holder or holder == '' then return by ~= '' and not knows_token end
  return by ~= holders.of(holder).user_id
end

-- Return the answer to a caller that is not the holder of a slot: {'not-holder', its holder or '', since when it is lent or '', ''}.
function holders.refusal(slot)
  local said = redis.call('HMGET', keys.session(slot), 'holder', 'borrowedAtUtc')
  return {'not-holder', said[1] or '', said[2] or '', ''}
end

return holders
