-- Look at pools; one whose maintenance is over is opened again.
-- Returns per pool: {published, free, lent, 1 | 0 (under maintenance), free at its start, lent at its start}
-- @rest pools
-- @include store
-- @include serve
local answers = {}
for i = 1, #ARGV do
  local pool = ARGV[i]
  local active = under_maintenance(pool)
  answers[i] = {redis.call('SCARD', key_pool_slots(pool)), redis.call('LLEN', key_available(pool)),
    redis.call('LLEN', key_inuse(pool)), active and 1 or 0,
    tonumber(redis.call('GET', key_maintenance_free(pool)) or '0'),
    tonumber(redis.call('GET', key_maintenance_lent(pool)) or '0')}
end
serve_opened()
return answers
