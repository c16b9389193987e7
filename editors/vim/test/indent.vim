" vim -Nu NONE -es -S indent.vim
" Reindents the programs of the repository, which must not change. Also tests the settings, and the parsing of compiler messages.

let s:here = expand('<sfile>:p:h')
let s:root = fnamemodify(s:here, ':h:h:h')
execute 'set runtimepath^=' . fnameescape(fnamemodify(s:here, ':h'))
set nomore
filetype plugin indent on

let s:count = 0
for s:path in glob(s:root . '/examples/*.clk', 0, 1) + glob(s:root . '/stdlib/*.clk', 0, 1)
  execute 'edit ' . fnameescape(s:path)
  let s:before = getline(1, '$')
  silent normal! gg=G
  let s:after = getline(1, '$')
  for s:line in range(len(s:before))
    call assert_equal(s:before[s:line], s:after[s:line], fnamemodify(s:path, ':t') . ':' . (s:line + 1))
  endfor
  let s:count += 1
  bdelete!
endfor
call assert_true(s:count > 30, 'only ' . s:count . ' programs')

execute 'edit ' . fnameescape(s:here . '/sample.clk')
call assert_equal('// %s', &commentstring)
call assert_equal(4, &shiftwidth)
call assert_equal(2, exists(':ClkRun'))
call assert_match('clk check', &makeprg)
let s:messages = ['error[E0201]: nothing here is called `foo`', '   ,-[ a b.clk:2:7 ]', '   |', ' 2 | foo(3)', "---'", '',
      \ 'warning[W0001]: unused', '   ,-[ c.clk:10:1 ]', "---'", '', '2 errors']
let &errorformat = &l:errorformat
cgetexpr s:messages
let s:found = filter(getqflist(), 'v:val.valid')
call assert_equal(2, len(s:found))
call assert_equal([2, 7, 'nothing here is called `foo`', 'E'],
      \ [s:found[0].lnum, s:found[0].col, s:found[0].text, s:found[0].type])
call assert_equal(['c.clk', 10, 'W'], [bufname(s:found[1].bufnr), s:found[1].lnum, s:found[1].type])

for s:message in v:errors
  verbose echo s:message . "\n"
endfor
if !empty(v:errors)
  cquit
endif
qall!
