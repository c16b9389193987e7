//! Tests the commands of `clk`, the session, the debugger and the language server.

mod cli;
mod cli_repl;
mod cuda_faults;
mod cuda_files;
mod dap;
mod debug;
mod hostile;
mod hostile_git;
mod ide;
mod interruption;
mod launch;
mod launch_serve;
mod lsp;
mod mcp;
mod output_formats;
mod planted;
mod profile;
mod profile_expressions;
mod progress;
mod projects;
mod ranks;
mod session_speed;
mod site;
mod terminal;
mod tune;
mod why;
