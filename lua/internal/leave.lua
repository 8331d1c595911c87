-- Take a reader off its group, or, where it still holds entries, let the others have them at once.
-- Safe to repeat. Returns how many it still holds.
local key     = ARGV[1]              -- stream
local group   = ARGV[2]
local reader  = ARGV[3]
local idle_ms = ARGV[4]              -- after which others take an entry
local held = redis.pcall('XPENDING', key, group, '-', '+', 1000, reader)
if held.err then return 0 end
for _, entry in ipairs(held) do redis.call('XCLAIM', key, group, reader, 0, entry[1], 'IDLE', idle_ms, 'JUSTID') end
if #held == 0 then redis.call('XGROUP', 'DELCONSUMER', key, group, reader) end
return #held
