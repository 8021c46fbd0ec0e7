-- work.lua ROUNDS - trees, strings, closures and tables that come and go
local rounds = tonumber(arg[1])

local function tree(depth)
  if depth == 0 then return {} end
  return { tree(depth - 1), tree(depth - 1), depth = depth }
end

local function count(node)
  local sum = 1
  for i = 1, #node do sum = sum + count(node[i]) end
  return sum
end

local function words(n, seed)
  local state, list = seed, {}
  for i = 1, n do
    state = (state * 1103515245 + 12345) % 2147483648
    list[i] = string.format("%x-%s", state, ("ab"):rep(state % 7))
  end
  return list
end

local checksum = 0
for round = 1, rounds do
  local long = tree(14)
  checksum = checksum + count(long)
  local list, index = words(30000, round), {}
  for i, word in ipairs(list) do
    local bucket = index[#word] or {}
    bucket[#bucket + 1] = function() return i + #word end
    index[#word] = bucket
  end
  for _, bucket in pairs(index) do
    for _, call in ipairs(bucket) do checksum = checksum + call() end
  end
  table.sort(list)
  local text = table.concat(list, " ")
  for word in text:gmatch("%x+") do checksum = checksum + #word end
end
print(checksum)
