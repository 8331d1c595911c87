-- Set how many grants of a label may be live at once, at run time and for all hubs; waiters it lets in are served.
-- Safe to repeat. Returns {'ok', the cap that holds now, live grants}
local label = ARGV[1]                -- '' for all labels without a cap of their own
local cap   = ARGV[2]                -- 0: no limit, '' back to the environment's
-- @include store
-- @include serve
local field = label == '' and 'set' or 'set:' .. label
if (redis.call('HGET', key_caps, field) or '') ~= cap then
  note('cap.set', 'label', label == '' and '*' or label, 'cap', cap, 'why', cap == '' and 'cleared' or '')
end
if cap == '' then redis.call('HDEL', key_caps, field) else redis.call('HSET', key_caps, field, cap) end
note_caps()
if label ~= '' then
  serve_label(label)
  serve_opened()
  return {'ok', cap_of(label), redis.call('ZCARD', key_asked(label))}
end
local caps = redis.call('HMGET', key_caps, 'set', 'env')
return {'ok', tonumber(caps[1] or caps[2] or '0'), 0}
