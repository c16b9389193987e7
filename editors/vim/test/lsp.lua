-- Tests `$CLK lsp` with Neovim's client: an error is reported, and disappears when it is fixed.

local failures = {}
local function check(condition, description)
  if not condition then
    table.insert(failures, description)
  end
end

local function main()
  local folder = vim.fn.tempname()
  vim.fn.mkdir(folder, 'p')
  local path = folder .. '/program.clk'
  vim.fn.writefile({ 'fn twice(x: i32) -> i32 { 2 * x }', 'let a = twice(missing)', 'print(a)' }, path)
  vim.cmd('edit ' .. path)
  local config = { name = 'clk', cmd = { vim.env.CLK, 'lsp' }, root_dir = folder }
  local id = vim.lsp.start and vim.lsp.start(config) or vim.lsp.start_client(config)
  vim.lsp.buf_attach_client(0, id)
  local function messages()
    return vim.diagnostic.get(0)
  end
  check(vim.wait(10000, function() return #messages() == 1 end, 20), 'one diagnostic within ten seconds')
  local diagnostic = messages()[1] or {}
  check(diagnostic.lnum == 1 and diagnostic.col == 14, 'the location of the diagnostic: ' .. vim.inspect(diagnostic))
  vim.api.nvim_buf_set_lines(0, 1, 2, true, { 'let a = twice(3)' })
  check(vim.wait(10000, function() return #messages() == 0 end, 20), 'no diagnostic after the error is fixed')
  local client = vim.lsp.get_client_by_id(id)
  local hover = client.request_sync('textDocument/hover', {
    textDocument = { uri = vim.uri_from_bufnr(0) },
    position = { line = 1, character = 9 },
  }, 10000, 0)
  check(hover and hover.result and vim.inspect(hover.result.contents):find('twice', 1, true), 'hover over a call: ' .. vim.inspect(hover))
  vim.cmd('runtime ftplugin/clk.vim')
  check(vim.fn.maparg('K', 'n'):find('vim.lsp.buf.hover', 1, true), '`K` asks the server')
  client.stop()
  check(vim.wait(10000, function() return client.is_stopped() end, 20), 'the server stops')
end

local ok, message = xpcall(main, debug.traceback)
if not ok then
  table.insert(failures, message)
end
for _, failure in ipairs(failures) do
  io.stderr:write(failure .. '\n')
end
vim.cmd(#failures > 0 and 'cquit' or 'qall!')
