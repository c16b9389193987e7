-- Tests sample.clk with Neovim's tree-sitter: there are no syntax errors, and highlight captures and folds are as expected.

local here = debug.getinfo(1, 'S').source:sub(2):match('(.*/)') or './'
local failures = {}
local function expect(expected, actual, description)
  if expected ~= actual then
    table.insert(failures, string.format('%s: expected %s, found %s', description, expected, actual))
  end
end

local function main()
  vim.cmd('edit ' .. here .. 'sample.clk')
  local parser = vim.treesitter.get_parser(0, 'clk')
  local root = parser:parse()[1]:root()
  expect(false, root:has_error(), 'errors in sample.clk')

  local read = vim.treesitter.get_query or vim.treesitter.query.get
  if vim.treesitter.query and vim.treesitter.query.get then
    read = vim.treesitter.query.get
  elseif vim.treesitter.query and vim.treesitter.query.get_query then
    read = vim.treesitter.query.get_query
  end
  for _, name in ipairs({ 'highlights', 'locals', 'folds', 'indents', 'injections' }) do
    expect(true, read('clk', name) ~= nil, 'query ' .. name)
  end

  -- Returns the capture at the first character of a text. The smallest node wins, and then the last pattern.
  local query = read('clk', 'highlights')
  local function capture(line, text)
    local content = vim.api.nvim_buf_get_lines(0, line - 1, line, true)[1]
    local column = content:find(text, 1, true) - 1
    local best, size = 'nothing', math.huge
    for id, node in query:iter_captures(root, 0, line - 1, line) do
      local a, b, c, d = node:range()
      local inside = (a < line - 1 or (a == line - 1 and b <= column)) and (c > line - 1 or (c == line - 1 and d > column))
      local length = (c - a) * 1000 + d - b
      if inside and length <= size then
        best, size = query.captures[id], length
      end
    end
    return best
  end
  expect('comment', capture(1, 'usr'), 'line for the shell')
  expect('comment.documentation', capture(2, 'Doc'), 'documentation')
  expect('comment', capture(4, 'inner'), 'nested comment')
  expect('keyword.modifier', capture(4, 'const'), 'const')
  expect('type.builtin', capture(4, 'i32'), 'i32')
  expect('keyword.function', capture(7, 'kernel'), 'kernel')
  expect('function', capture(7, 'scale'), 'scale')
  expect('variable.parameter', capture(7, 'x:'), 'parameter')
  expect('keyword', capture(7, 'threads'), 'threads')
  expect('function.builtin', capture(8, 'sqrt'), 'sqrt')
  expect('variable.builtin', capture(8, 'thread_idx'), 'thread_idx')
  expect('keyword.repeat', capture(10, 'step'), 'step')
  expect('variable', capture(14, 'grid'), 'grid as a name')
  expect('string.special', capture(15, '.3'), 'format')
  expect('string.escape', capture(15, '{{'), 'escape')

  local folds = 0
  for _ in read('clk', 'folds'):iter_captures(root, 0, 0, -1) do
    folds = folds + 1
  end
  expect(true, folds > 3, 'folds')
end

local ok, message = xpcall(main, debug.traceback)
if not ok then
  table.insert(failures, message)
end
for _, failure in ipairs(failures) do
  io.stderr:write(failure .. '\n')
end
vim.cmd(#failures > 0 and 'cquit' or 'qall!')
