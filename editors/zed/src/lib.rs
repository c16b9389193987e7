//! The Zed extension: finds `clk` and starts its language server.

use zed_extension_api::settings::LspSettings;
use zed_extension_api::{self as zed, Command, LanguageServerId, Result, Worktree};

struct ClkExtension;

impl zed::Extension for ClkExtension {
    fn new() -> Self {
        ClkExtension
    }

    /// Returns the command `clk lsp`. The binary is that of the setting `lsp.clk.binary.path`, or the one in `PATH`.
    fn language_server_command(&mut self, server: &LanguageServerId, worktree: &Worktree) -> Result<Command> {
        let settings = LspSettings::for_worktree(server.as_ref(), worktree)?;
        let binary = settings.binary.unwrap_or(zed::settings::CommandSettings { path: None, arguments: None, env: None });
        let command = binary
            .path
            .or_else(|| worktree.which("clk"))
            .ok_or("`clk` is not in PATH; set `lsp.clk.binary.path` in the settings")?;
        let args = binary.arguments.unwrap_or_else(|| vec!["lsp".to_string()]);
        Ok(Command { command, args, env: worktree.shell_env() })
    }
}

zed::register_extension!(ClkExtension);
