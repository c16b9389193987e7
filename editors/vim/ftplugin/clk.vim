" Settings for Clk files.

if exists('b:did_ftplugin')
  finish
endif
let b:did_ftplugin = 1
let s:saved = &cpoptions
set cpoptions&vim

setlocal comments=s1:/*,mb:*,ex:*/,:///,://
setlocal commentstring=//\ %s
setlocal formatoptions-=t formatoptions+=croql
setlocal expandtab shiftwidth=4 softtabstop=4 tabstop=4
setlocal suffixesadd=.clk
setlocal include=^\\s*import
let b:match_words = '\<if\>:\<else\>'
let b:undo_ftplugin = 'setlocal comments< commentstring< formatoptions< expandtab< shiftwidth< softtabstop< tabstop<'
      \ . ' suffixesadd< include< makeprg< errorformat< keywordprg< | unlet! b:match_words'

" `:make` reports the errors of the file.
compiler clk

" K shows the documentation of a builtin, a module or a keyword. In Neovim with the language server, it shows the hover of any name.
if executable('clk')
  setlocal keywordprg=clk\ doc
endif
if has('nvim')
  nnoremap <buffer> <expr> K luaeval('#(vim.lsp.get_clients or vim.lsp.get_active_clients)({ bufnr = 0 })') > 0
        \ ? '<Cmd>lua vim.lsp.buf.hover()<CR>' : 'K'
  let b:undo_ftplugin .= ' | silent! nunmap <buffer> K'
endif

" :ClkRun runs the file. Its arguments are passed to `clk run` after the file name.
command! -buffer -nargs=* ClkRun update | execute '!clk run ' . shellescape(expand('%:p'), 1) . ' ' . <q-args>
command! -buffer -nargs=* ClkTest update | execute '!clk test ' . shellescape(expand('%:p'), 1) . ' ' . <q-args>
command! -buffer -nargs=* ClkProfile update | execute '!clk profile ' . shellescape(expand('%:p'), 1) . ' ' . <q-args>
let b:undo_ftplugin .= ' | delcommand -buffer ClkRun | delcommand -buffer ClkTest | delcommand -buffer ClkProfile'
if !has('patch-8.2.4430') && !has('nvim-0.9')
  let b:undo_ftplugin = substitute(b:undo_ftplugin, 'delcommand -buffer', 'silent! delcommand', 'g')
endif

let &cpoptions = s:saved
unlet s:saved
