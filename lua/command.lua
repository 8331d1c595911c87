-- Commands: the functions that hubs call, one file each. A command says its name, which is that of its file, and its
-- arguments in order: 'x', 'x: number', or at the end '...xs' for any number of further ones. It is a function of those by
-- their names and, for the further ones, of all arguments as they came. Every call ends with the generation and the hub
-- clock that its hub knows, the hub clock until which its caller waits, and the number of the database.
local command = {}

local used_ms  -- when a hub used this library last on this server process

-- Which of the arguments have names, which of those are numbers, and whether there are further ones.
local function read(arguments)
  local names, as_number, takes_rest = {}, {}, false
  for i, argument in ipairs(arguments) do
    names[i] = string.match(argument, '^[%w_]+')
    if string.find(argument, ': number', 1, true) then as_number[#as_number + 1] = names[i] end
    takes_rest = not names[i]
  end
  return names, as_number, takes_rest
end

-- While a slot of a cluster moves, a command would find some of its keys gone when it has written others already. Asked
-- for a key that never exists, the server refuses it at once.
function command.stay_whole() redis.call('EXISTS', keys.canary) end

-- While a library is loaded Lua has next to nothing: the rest is done with the first call.
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

local function unclocked()
  if not store.opened_as then return store.is_shut() end
end

-- A change that needs no clock still checks that this is the store: a store that moves away refuses it.
local function unmoved()
  if not store.opened_as or redis.call('HGET', keys.store, 'generation') ~= store.opened_as then return store.is_shut() end
end

-- A change, which is refused while Redis has no memory left.
function command.change(name, arguments, action) declare(name, arguments, action, store.begin, {}) end

-- A change that only adds: it is refused when nothing but the reserve is left, unless a hub says it again after a loss.
function command.add(name, arguments, action)
  command.change(name, arguments, function(a, argv)
    return a.told ~= '1' and a.made_for ~= 'told' and reserve.refusal(argv) or action(a, argv)
  end)
end

-- A change that ends things or keeps them alive: it is carried out also while Redis has no memory left.
function command.finish(name, arguments, action) declare(name, arguments, action, store.begin, {'allow-oom'}) end

-- A command that changes nothing.
function command.read(name, arguments, action) declare(name, arguments, action, store.begin, {'no-writes'}) end
-- A change and a read that need neither a time nor another field of `store`, and are never late.
function command.change_unclocked(name, arguments, action) declare(name, arguments, action, unmoved, {}) end
function command.read_unclocked(name, arguments, action) declare(name, arguments, action, unclocked, {'no-writes'}) end

-- A command that opens the store.
function command.open(name, arguments, action) declare(name, arguments, action, function() end, {'allow-oom'}) end

-- When a hub used this library last, by the time of Redis in ms; -1 when none did since this server was started.
register({function_name = FUNCTIONS.last_used, flags = {'no-writes'}, callback = function() return used_ms or -1 end})

return command
