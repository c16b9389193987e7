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

" The line without its strings and comments. Angle brackets of parameters on lines of their own are parentheses.
function! s:Code(number) abort
  let text = substitute(getline(a:number), '"\%(\\.\|[^"\\]\)*"', '""', 'g')
  let text = substitute(text, '//.*$\|/\*.\{-}\*/', '', 'g')
  let text = substitute(text, '^\s*\%(kernel\|fn\|struct\)\s\+\w\+\zs<\s*$', '(', '')
  return substitute(text, '^\s*\zs>\ze\%([({]\|\s*$\)', ')', '')
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
        \ || a:text =~# '^\s*\%(assume\|expect\|tune\)\s\+[[:alnum:]_(!]'
endfunction

" Whether the line goes on with a list of assumptions.
function! s:Assumes(number) abort
  let at = prevnonblank(a:number - 1)
  while at > 0 && s:Code(at) =~# ',\s*$'
    if s:Code(at) =~# '^\s*assume\s'
      return 1
    endif
    let at = prevnonblank(at - 1)
  endwhile
  return 0
endfunction

" Whether the line is part of a continuation. A closer alone belongs to the line that opened.
function! s:Continued(number) abort
  let at = a:number
  if s:Code(at) =~# '^\s*)\s*$'
    let at = prevnonblank(at - 1)
    while at > 1 && indent(at) > indent(a:number)
      let at = prevnonblank(at - 1)
    endwhile
  endif
  return s:Continues(s:Code(at)) || s:Assumes(at)
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
  let went = s:Continued(before)
  let goes = s:Continues(here) || s:Assumes(a:number)
  " A line that continued a statement and leaves nothing open gives its step back.
  if went && open <= 0 && !goes
    let indent -= shiftwidth()
  elseif !went && goes && open <= 0
    let indent += shiftwidth()
  endif
  " So does one that opens a body; what other brackets hold stands deeper than they do.
  if went && open > 0 && text =~# '{\s*$' && text !~# '^\s*\.'
    let indent -= shiftwidth()
  endif
  let indent += open > 0 ? shiftwidth() : open < 0 ? open * shiftwidth() : 0
  if here =~# '^\s*[])}]'
    let indent -= shiftwidth()
  endif
  return max([indent, 0])
endfunction
