-- Commands: the functions that hubs call, one file each. A command declares its name, which is that of its file, and its arguments in
-- order: 'x' (text), 'x: number', or as the last one '...xs' for any number of further texts. Its function gets a table of the
-- arguments by name, and the list of all arguments for the further ones. The hub adds to each call: the generation and the hub clock
-- that it knows, the hub clock until which its caller waits, and the number of the database.
local command = {}

local used_ms  -- ms, Redis time: the last call of this library since the server was started

-- Return the names of the arguments, the names of those that are numbers, and whether further arguments follow.
local function read(arguments)
  local names, as_number, takes_rest = {}, {}, false
  for i, argument in ipairs(arguments) do
    names[i] = string.match(argument, '^[%w_]+')
    if string.find(argument, ': number', 1, true) then as_number[#as_number + 1] = names[i] end
    takes_rest = not names[i]
  end
  return names, as_number, takes_rest
end

-- Fail before anything is written while a cluster moves the keys of the store: the server then refuses to read a key that never exists.
function command.stay_whole() redis.call('EXISTS', keys.canary) end

-- Register a command. While a library is loaded, Lua has hardly any functions: the declaration is parsed at the first call.
local function declare(name, arguments, action, begin, flags)
  local named, names, as_number, takes_rest = {}, nil, nil, nil
  local function callback(given, argv)
    if not names then
      wake()
      names, as_number, takes_rest = read(arguments)
    end
    local last = #argv
    store.choose(given[1], argv[last])
    if store.in_cluster and flags[1] ~= 'no-writes' then command.stay_whole() end
    local refusal = begin(argv[last - 3], argv[last - 2], argv[last - 1])
    if refusal then return refusal end
    used_ms = store.now_ms
    if takes_rest then argv[last], argv[last - 1], argv[last - 2], argv[last - 3] = nil, nil, nil, nil end
    for i = 1, #names do named[names[i]] = argv[i] end
    for i = 1, #as_number do named[as_number[i]] = tonumber(named[as_number[i]]) end
    return action(named, argv)
  end
  register({function_name = FUNCTIONS[name], callback = callback, flags = flags})
end

-- Refuse a command that reads no clock of the store (`*_unclocked`), unless a hub has opened the store on this server.
local function unclocked()
  if not store.opened_as then return store.is_shut() end
end

-- Refuse such a change also when the store has another generation by now, or none, as while it moves to another server.
local function unmoved()
  if not store.opened_as or redis.call('HGET', keys.store, 'generation') ~= store.opened_as then return store.is_shut() end
end

-- Declare a command that changes something; Redis refuses it while it has no memory left.
function command.change(name, arguments, action) declare(name, arguments, action, store.begin, {}) end

-- Declare a change that ends things, keeps them alive, or restores them: it runs also while Redis has no memory left.
function command.finish(name, arguments, action) declare(name, arguments, action, store.begin, {'allow-oom'}) end

-- Declare a change that only adds: refused when it would use the reserve, unless a hub repeats it after a loss. Of several calls of
-- one request the first asks also for what the others will add (`later`); they are then not refused.
function command.add(name, arguments, action)
  command.finish(name, arguments, function(a, argv)
    return a.told ~= '1' and a.made_for ~= 'told' and (a.later or 0) >= 0 and reserve.refusal(argv, a.later or 0) or action(a, argv)
  end)
end
-- Declare a command that changes nothing.
function command.read(name, arguments, action) declare(name, arguments, action, store.begin, {'no-writes'}) end
-- Declare a change, or a read, that uses no time and no field of `store`; it is never refused as late, nor for want of memory.
function command.change_unclocked(name, arguments, action) declare(name, arguments, action, unmoved, {'allow-oom'}) end
function command.read_unclocked(name, arguments, action) declare(name, arguments, action, unclocked, {'no-writes'}) end

-- Declare a command that runs also when no hub has opened the store: it opens, moves or reads the store itself.
function command.open(name, arguments, action) declare(name, arguments, action, function() end, {'allow-oom'}) end

-- Return when a hub used this library last, Redis time in ms; -1 when none did since this server was started.
register({function_name = FUNCTIONS.last_used, flags = {'no-writes'}, callback = function() return used_ms or -1 end})

return command
