-- The caller of an attempt is gone, or has waited long enough: take back its grant, which goes to whoever is next, or
-- its place in line, which a ticket with a key keeps for a while. A grant stays while another attempt has it too: that
-- caller may hold what he got. An attempt that has not been carried out yet never will be. Safe to repeat.
-- Returns {'undone', slot, token} | {'granted'} (and left alone) | {'left', 'away' | 'dropped'} | {'nothing'}
local request = ARGV[1]
local attempt = ARGV[2]
local hub     = ARGV[3]              -- the hub that attended it
local why     = ARGV[4]              -- 'gone' | 'timeout' | 'stopping': only the place in line, a grant is left alone
-- @include store
-- @include take_back
-- @include owners
-- @include serve
local before = redis.call('GET', key_request(request))
local asked, slot, token, owners = string.match(before or '', '^(.-)|(.*)|(%d+)|(.*)$')
local owns = slot and is_owner(owners, attempt)
if slot and why ~= 'gone' then return {owns and 'granted' or 'nothing'} end
if request ~= attempt or not slot then redis.call('SET', key_request(attempt), 'undone', 'EX', 60) end
local t = read_ticket(request)
if not slot then
  if t.label and t.attempt == attempt then return {'left', set_aside(t, why)} end
  return {'nothing'}
end
if not owns then return {'nothing'} end
local others = other_owners(owners, attempt)
if others ~= '' then
  redis.call('SET', key_request(request), table.concat({asked, slot, token, others}, '|'), 'KEEPTTL')
  return {'nothing'}
end
redis.call('SREM', key_handed(hub), request)  -- also when that grant is over
local freed = take_back(request, slot, token, why)
serve_opened()
return freed and {'undone', freed, token} or {'nothing'}
