//! All diagnostic codes with their pages for `clk explain`. Each chapter belongs to the stage that reports its codes.

pub mod check;
pub(crate) mod checks;
pub(crate) mod fault;
pub(crate) mod imports;
pub(crate) mod launch;
pub(crate) mod lower;
pub(crate) mod run;
pub(crate) mod script;
pub mod syntax;

/// The page of a diagnostic code.
pub struct Page {
    /// The code, such as `E0301` or `W0002`.
    pub code: &'static str,
    /// A brief description of the error.
    pub title: &'static str,
    /// Markdown. A ```` ```clk fails ```` block shows the error (a test checks that it gives this code), a ```` ```clk ```` block
    /// shows correct code (a test checks that it passes).
    pub text: &'static str,
}

/// Returns all pages, chapter by chapter.
pub fn pages() -> impl Iterator<Item = &'static Page> {
    [
        syntax::PAGES,
        imports::PAGES,
        check::PAGES,
        lower::PAGES,
        run::PAGES,
        script::PAGES,
        fault::PAGES,
        checks::PAGES,
        launch::PAGES,
    ]
    .into_iter()
    .flatten()
}

/// Returns the page of a code, ignoring case.
pub fn find(code: &str) -> Option<&'static Page> {
    pages().find(|p| p.code.eq_ignore_ascii_case(code))
}
