-- Say of the store whether anybody waits and whether there is a cap. Safe to repeat. Returns {'ok'}
-- @rest ignored
-- @include caps
note_caps()
if redis.call('EXISTS', key_turns) == 1 then redis.call('HSET', key_store, 'waiting', '1') end
return {'ok'}
