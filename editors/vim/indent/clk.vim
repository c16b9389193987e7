" Indentation of Clk: one level for each line with unclosed brackets, and one for a line that continues a statement.

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

" Returns the line without strings and comments. Replaces the angle brackets around multi-line generic parameters by parentheses.
function! s:Code(number) abort
  let text = substitute(getline(a:number), '"\%(\\.\|[^"\\]\)*"', '""', 'g')
  let text = substitute(text, '//.*$\|/\*.\{-}\*/', '', 'g')
  let text = substitute(text, '^\s*\%(kernel\|fn\|struct\)\s\+\w\+\zs<\s*$', '(', '')
  return substitute(text, '^\s*\zs>\ze\%([({]\|\s*$\)', ')', '')
endfunction

" Returns the number of brackets that the text leaves open, ignoring closing brackets at its start.
function! s:OpenBrackets(text) abort
  let rest = substitute(a:text, '^\s*[])}]\+', '', '')
  let depth = 0
  for mark in split(substitute(rest, '[^][(){}]', '', 'g'), '\zs')
    let depth += mark =~# '[[({]' ? 1 : -1
  endfor
  return depth
endfunction

" Returns whether the line continues the statement of the previous line.
function! s:IsContinuation(text) abort
  return a:text =~# '^\s*\%(\.\|[*%@&|^]\|+\|/[^/*]\|[<>=]\|!=\)' || a:text =~# '^\s*\%(threads\|grid\|block\)\s*('
        \ || a:text =~# '^\s*\%(assume\|expect\|tune\)\s\+[[:alnum:]_(!]'
endfunction

" Returns whether the line continues a list of assumptions.
function! s:IsAssumption(number) abort
  let line = prevnonblank(a:number - 1)
  while line > 0 && s:Code(line) =~# ',\s*$'
    if s:Code(line) =~# '^\s*assume\s'
      return 1
    endif
    let line = prevnonblank(line - 1)
  endwhile
  return 0
endfunction

" Returns whether the line is indented as a continuation. A single closing parenthesis belongs to the line that opened it.
function! s:IsInContinuation(number) abort
  let line = a:number
  if s:Code(line) =~# '^\s*)\s*$'
    let line = prevnonblank(line - 1)
    while line > 1 && indent(line) > indent(a:number)
      let line = prevnonblank(line - 1)
    endwhile
  endif
  return s:IsContinuation(s:Code(line)) || s:IsAssumption(line)
endfunction

function! ClkIndent(number) abort
  let previous = prevnonblank(a:number - 1)
  if previous == 0
    return 0
  endif
  let text = s:Code(previous)
  let current = s:Code(a:number)
  let indent = indent(previous)
  let open = s:OpenBrackets(text)
  let was_continuation = s:IsInContinuation(previous)
  let is_continuation = s:IsContinuation(current) || s:IsAssumption(a:number)
  " After a continuation without unclosed brackets, remove the extra level.
  if was_continuation && open <= 0 && !is_continuation
    let indent -= shiftwidth()
  elseif !was_continuation && is_continuation && open <= 0
    let indent += shiftwidth()
  endif
  " Likewise after a continuation that opens a body. The content of other brackets keeps the extra level.
  if was_continuation && open > 0 && text =~# '{\s*$' && text !~# '^\s*\.'
    let indent -= shiftwidth()
  endif
  let indent += open > 0 ? shiftwidth() : open < 0 ? open * shiftwidth() : 0
  if current =~# '^\s*[])}]'
    let indent -= shiftwidth()
  endif
  return max([indent, 0])
endfunction
