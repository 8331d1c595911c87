-- Serve waiters from the free slots of a pool. Safe to repeat. Returns {'ok'}
local pool = ARGV[1]
-- @include store
-- @include serve
serve_pool(pool)
return {'ok'}
