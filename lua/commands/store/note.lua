-- Write an event into the history about what a hub did in many steps, such as a sweep. Safe to repeat: the same id is not written twice
-- in a row. Returns {'ok'}
command.change('store/note', {
  'what',      -- name of the event
  'id',        -- id of this event
  '...facts',  -- name, fact, and so on
}, function(a, argv)
  if redis.call('HGET', keys.store, 'noted:' .. a.what) ~= a.id then
    redis.call('HSET', keys.store, 'noted:' .. a.what, a.id)
    history.note(a.what, unpack(argv, 3))
  end
  return {'ok'}
end)
