local json = require("json")
local M = {}

M.limit = 10

-- Adds two numbers.
local function add(a, b)
  return a + b
end

function M.total(lines)
  local sum = 0
  for _, line in ipairs(lines) do
    sum = add(sum, line)
  end
  return sum
end

function M:describe()
  return json.encode(self)
end

M.twice = function(x)
  return x * 2
end

return M
