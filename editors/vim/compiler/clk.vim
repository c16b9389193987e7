" `:make` runs `clk check` on the file, and puts its messages in the quickfix list.

if exists('current_compiler')
  finish
endif
let current_compiler = 'clk'

if exists(':CompilerSet') != 2
  command -nargs=* CompilerSet setlocal <args>
endif

CompilerSet makeprg=clk\ check\ --ascii\ --color\ never\ %:S
CompilerSet errorformat=%Eerror[%t%n]:\ %m,%Wwarning[%t%n]:\ %m,%C\ %#\\,-[\ %f:%l:%c\ ],%Z---',%-C%.%#,%-G%.%#
