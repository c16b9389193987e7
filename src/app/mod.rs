//! Layer 7: the only room that does I/O: command line, REPL, files.
