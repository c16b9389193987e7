" Indentation of Clk: one step for each line that leaves brackets open, one for a line that continues a statement.

if exists('b:did_indent')
  finish
endif
let b:did_indent = 1

setlocal indentexpr=ClkIndent(v:lnum)
setlocal indentkeys=0{,0},0),0],!^F,o,O,e,0.,0+,0*
setlocal nolisp nosmartindent
let b:undo_indent = 'setlocal indentexpr< indentkeys< lisp< smartindent<'

if exists('*ClkIndent')
  finish
endif

" The line without its strings and comments.
function! s:Code(number) abort
  let text = substitute(getline(a:number), '"\%(\\.\|[^"\\]\)*"', '""', 'g')
  return substitute(text, '//.*$\|/\*.\{-}\*/', '', 'g')
endfunction

" How many brackets the text leaves open, without those that its first closers close.
function! s:Open(text) abort
  let rest = substitute(a:text, '^\s*[])}]\+', '', '')
  let depth = 0
  for mark in split(substitute(rest, '[^][(){}]', '', 'g'), '\zs')
    let depth += mark =~# '[[({]' ? 1 : -1
  endfor
  return depth
endfunction

" Whether the line goes on with the statement of the line before.
function! s:Continues(text) abort
  return a:text =~# '^\s*\%(\.\|[*%@&|^]\|+\|/[^/*]\|[<>=]\|!=\)' || a:text =~# '^\s*\%(threads\|grid\|block\)\s*('
        \ || a:text =~# '^\s*\%(assume\|expect\)\s\+[[:alnum:]_(!]'
endfunction

function! ClkIndent(number) abort
  let before = prevnonblank(a:number - 1)
  if before == 0
    return 0
  endif
  let text = s:Code(before)
  let here = s:Code(a:number)
  let indent = indent(before)
  let open = s:Open(text)
  " A line that continued a statement and leaves nothing open gives its step back.
  if s:Continues(text) && open <= 0 && !s:Continues(here)
    let indent -= shiftwidth()
  elseif !s:Continues(text) && s:Continues(here) && open <= 0
    let indent += shiftwidth()
  endif
  if s:Continues(text) && open > 0 && text !~# '^\s*\.'
    let indent -= shiftwidth()
  endif
  let indent += open > 0 ? shiftwidth() : open < 0 ? open * shiftwidth() : 0
  if here =~# '^\s*[])}]'
    let indent -= shiftwidth()
  endif
  return max([indent, 0])
endfunction
