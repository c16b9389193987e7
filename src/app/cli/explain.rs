//! `clk explain`: prints the page of a diagnostic code.

use crate::command_error::{CommandError, CommandResult};
use crate::context::AppContext;
use crate::{exit, markdown, suggestions};
use clk_base::render::RenderStyle;

pub(crate) fn code(code: Option<&str>, context: &mut AppContext) -> u8 {
    let Some(code) = code else {
        let list: String = clk_codes::pages().map(|page| format!("{}  {}\n", page.code, page.title)).collect();
        context.console.print(&list);
        return exit::OK;
    };
    let text = page(code, context.console.style);
    context.show(text)
}

/// Returns the page of a code.
pub(crate) fn page(code: &str, style: RenderStyle) -> CommandResult {
    if let Some(page) = clk_codes::find(code.trim()) {
        let heading = format!("# {}: {}\n\n", page.code, page.title);
        return Ok(markdown::render(&(heading + page.text.trim()), style));
    }
    let suggestion = suggestions::did_you_mean(code, clk_codes::pages().map(|p| p.code));
    let help = suggestion.unwrap_or_else(|| "`clk explain` lists all codes".into());
    Err(CommandError::from(format!("error: there is no code `{code}`")).help(help))
}
