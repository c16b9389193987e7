" Clk files, by name or by a `#!` line that calls clk.
autocmd BufNewFile,BufRead *.clk setfiletype clk
autocmd BufNewFile,BufRead * if !did_filetype() && getline(1) =~# '^#!.*\<clk\>' | setfiletype clk | endif
