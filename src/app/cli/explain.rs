//! `clk explain`: prints the page of a diagnostic code.

use crate::app::context::Context;
use crate::app::{exit, markdown, names};
use crate::base::render::Style;
use crate::lang::codes;

pub(crate) fn code(code: Option<&str>, context: &mut Context) -> u8 {
    let Some(code) = code else {
        let list: String = codes::pages().map(|page| format!("{}  {}\n", page.code, page.title)).collect();
        context.console.print(&list);
        return exit::OK;
    };
    let found = page(code, context.console.style);
    context.show(found)
}

/// Returns the page of a code, or the reason why there is none.
pub(crate) fn page(code: &str, style: Style) -> Result<String, String> {
    if let Some(page) = codes::find(code.trim()) {
        let heading = format!("# {}: {}\n\n", page.code, page.title);
        return Ok(markdown::render(&(heading + page.text.trim()), style));
    }
    let meant = names::did_you_mean(code, codes::pages().map(|p| p.code));
    let help = meant.unwrap_or_else(|| "`clk explain` lists all codes".into());
    Err(format!("error: there is no code `{code}`\n  Help: {help}"))
}
