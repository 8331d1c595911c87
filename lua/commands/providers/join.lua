-- Note that a client has joined the room in which a provider is asked: questions from before are asked again. Safe to repeat. Returns
-- {'ok'}
command.change('providers/join', {
  'full',  -- full name of the provider
}, function(a)
  if redis.call('EXISTS', keys.provider(a.full)) == 1 then
    redis.call('HSET', keys.provider(a.full), 'joined', numbers.digits(store.now_us))
  end
  return {'ok'}
end)
