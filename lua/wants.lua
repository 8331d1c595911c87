-- Wants: what borrowers want of a slot, as trees that hub/capacity/where.py makes of `where`, and whether the slots of a class are so.
-- Wants and classes are named by digests of what they say, so a verdict stays true for ever and is remembered.
local wants = {}
local verdicts, known = {}, 0  -- class -> want -> verdict; [0]: how many. Growing a table takes 2 ms at 16,000 and 17 ms at 130,000.
-- Memories of two halves: when the young one is full, it becomes the old one, which is dropped.
local trees, classes = {young = {}, old = {}, left = 1000}, {young = {}, old = {}, left = 1000}
local function put(memory, name, value)
  if memory.left == 0 then memory.young, memory.old, memory.left = {}, memory.young, 1000 end
  memory.left = memory.left - 1
  memory.young[name] = value
  return value
end

-- Return what the JSON text says that was learned, or that stands in a field of a key; nil where it is lost.
local function decoded(memory, name, key, field)
  local text = memory.young[name] or memory.old[name] or redis.call('HGET', key, field)
  if type(text) ~= 'string' then return text or nil end
  return put(memory, name, cjson.decode(text))
end

local below = numbers.below  -- texts by code points, as CEL has it

local function among(value, list)
  for i = 1, #list do
    if list[i] == value then return true end
  end
  return false
end

-- What each comparison says, and in `OF` for which types of attribute CEL has it: `==`, `!=`, `in` for all, `<` for that of the value.
local SAYS = {
  ['=='] = function(found, value) return found == value end, ['!='] = function(found, value) return found ~= value end,
  ['<'] = below, ['<='] = function(found, value) return not below(value, found) end,
  ['>'] = function(found, value) return below(value, found) end, ['>='] = function(found, value) return not below(found, value) end,
  ['in'] = among, ['!in'] = function(found, list) return not among(found, list) end,
  has = function(found, value) return among(value, found) end, ['!has'] = function(found, value) return not among(value, found) end,
  is = function(found) return found end, ['!is'] = function(found) return not found end,
}
local OF = {['=='] = '', ['!='] = '', ['in'] = '', ['!in'] = '', has = 'table', ['!has'] = 'table', is = 'boolean', ['!is'] = 'boolean'}

-- Return whether attributes are as a tree says: true, false, or nil where a missing attribute, or one of another type, decides that.
function wants.judge(tree, attributes)
  local says = SAYS[tree[1]]
  if says then
    local found, of = attributes[tree[2]], OF[tree[1]] or type(tree[3])
    if found == nil or (of ~= '' and type(found) ~= of) then return nil end
    return says(found, tree[3])
  end
  local decides, verdict = tree[1] == '|', tree[1] == '&'
  for i = 2, #tree do
    local said = wants.judge(tree[i], attributes)
    if said == decides then return decides end
    if said == nil then verdict = nil end
  end
  return verdict
end

-- Note the JSON text of the tree of a want that no ticket has yet, so that the rest of the call can judge it.
function wants.learn(want, text) return trees.young[want] or put(trees, want, trees.old[want] or text) end

-- Return whether the slots of a class are as a want says; false where either is lost. '' and false are no class.
function wants.suits(want, class)
  local of = verdicts[class] or {}
  if of[want] ~= nil or not class or class == '' then return of[want] or false end
  local tree, attributes = decoded(trees, want, keys.want(want), 'tree'), decoded(classes, class, keys.slot_class(class), 'attributes')
  if not tree or not attributes then return false end
  if known == 200000 or of[0] == 16000 then verdicts, known, of = {}, 0, {} end
  verdicts[class], known, of[0] = of, known + 1, (of[0] or 0) + 1
  of[want] = wants.judge(tree, attributes) == true
  return of[want]
end
return wants
