-- Say again what a worker reported, or how a task was cancelled, to a store that may have lost it. Safe to repeat.
-- Returns {'recalled'} | {'known'} | {'newer'} (than what is said) | {'task'} (unknown: kept until a hub submits it again)
local id      = ARGV[1]
local status  = ARGV[2]              -- completed | failed | cancelled | pending
local error   = ARGV[3]
local claim   = ARGV[4]              -- '' where it is not known, or there was none
local request = ARGV[5]
local worker  = ARGV[6]              -- '' where it is not known, or there was none
-- @include recalled
local t = read_task(id)
if t then return {recall_end(t, status, error, claim, request, worker)} end
await_task(id, status, error, claim, request, worker)
return {'task'}
