-- Look again whether lines can be served: their cap has changed, or slots may have appeared unnoticed. Safe to repeat.
-- Returns {'ok', waiters served}
-- @rest labels
-- @include store
-- @include serve
for i = 1, #ARGV do serve_label(ARGV[i]) end
serve_opened()
return {'ok', served}
