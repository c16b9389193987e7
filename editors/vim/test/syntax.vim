" vim -Nu NONE -es -S syntax.vim
" Tests the syntax groups of words in sample.clk. Prints failures and exits with status 1.

let s:here = expand('<sfile>:p:h')
execute 'set runtimepath^=' . fnameescape(fnamemodify(s:here, ':h'))
set nomore
filetype plugin indent on
syntax on
execute 'edit ' . fnameescape(s:here . '/sample.clk')

" Returns the syntax group at the first character of the n-th occurrence of `text` in the line.
function! s:Group(line, text, count) abort
  let column = -1
  for _ in range(a:count)
    let column = stridx(getline(a:line), a:text, column + 1)
  endfor
  call assert_true(column >= 0, 'line ' . a:line . ' has no ' . a:text)
  return synIDattr(synID(a:line, column + 1, 1), 'name')
endfunction

function! s:Expect(line, text, group, ...) abort
  call assert_equal(a:group, s:Group(a:line, a:text, a:0 ? a:1 : 1), 'line ' . a:line . ': ' . a:text)
endfunction

call assert_equal('clk', &filetype)
call s:Expect(1, 'usr', 'clkShebang')
call s:Expect(2, 'Doc', 'clkDocComment')
call s:Expect(3, 'comment', 'clkComment')
call s:Expect(3, 'TODO', 'clkTodo')
call s:Expect(4, 'inner', 'clkBlockComment')
call s:Expect(4, 'still', 'clkBlockComment')
call s:Expect(4, 'const', 'clkKeyword')
call s:Expect(4, 'WIDTH', 'clkConstant')
call s:Expect(4, 'i32', 'clkType')
call s:Expect(4, '0xffu8', 'clkInteger')
call s:Expect(5, 'import', 'clkStatement')
call s:Expect(5, 'as', 'clkStatement')
call s:Expect(6, 'struct', 'clkDefine')
call s:Expect(6, 'Particle', 'clkTypeName')
call s:Expect(6, 'f32x3', 'clkType')
call s:Expect(7, 'kernel', 'clkDefine')
call s:Expect(7, 'scale', 'clkFunctionName')
call s:Expect(7, 'out', 'clkKeyword')
call s:Expect(7, 'threads', 'clkKeyword')
call s:Expect(8, 'sqrt', 'clkFunction')
call s:Expect(8, '*', 'clkOperator')
call s:Expect(8, '2.5f64', 'clkFloat')
call s:Expect(8, 'thread_idx', 'clkVariable')
call s:Expect(8, 'x', 'clkField', 3)
call s:Expect(9, '#unroll', 'clkDirective')
call s:Expect(10, 'for', 'clkStatement')
call s:Expect(10, '0', 'clkInteger')
call s:Expect(10, '..', 'clkOperator')
call s:Expect(10, '10', 'clkInteger')
call s:Expect(10, 'step', 'clkStatement')
call s:Expect(10, 'barrier', 'clkFunction')
call s:Expect(12, 'scale', 'clkFunctionCall')
call s:Expect(12, '<<<', 'clkOperator')
call s:Expect(13, 'on', 'clkStatement')
call s:Expect(13, 'batch', 'clkStatement')
call s:Expect(14, 'time', '')
call s:Expect(14, 'grid', '')
call s:Expect(14, 'block', '')
call s:Expect(15, '"', 'clkQuote')
call s:Expect(15, '{', 'clkBrace')
call s:Expect(15, ':.3', 'clkBrace')
call s:Expect(15, '{{', 'clkEscape')
call s:Expect(15, '\n', 'clkEscape')
call s:Expect(15, '// text', 'clkString')
call s:Expect(15, 'f(', 'clkFunctionCall')
call s:Expect(15, 'end', 'clkString')
call s:Expect(15, ')', '', 2)
call s:Expect(16, 'let', 'clkKeyword')
call s:Expect(16, 'true', 'clkBoolean')
call s:Expect(16, '1e-3', 'clkFloat')

for s:message in v:errors
  verbose echo substitute(s:message, '^.\{-}line \d\+: ', '', '') . "\n"
endfor
if !empty(v:errors)
  cquit
endif
qall!
