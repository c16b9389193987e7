//! Every diagnostic code with its page for `clk explain`. Each chapter belongs to the stage that reports its codes.

pub mod check;
pub(crate) mod checks;
pub(crate) mod fault;
pub(crate) mod imports;
pub(crate) mod launch;
pub(crate) mod lower;
pub(crate) mod run;
pub(crate) mod script;
pub mod syntax;

/// One code.
pub struct Page {
    /// `E0301`, `W0002`
    pub code: &'static str,
    /// The mistake in a few words.
    pub title: &'static str,
    /// Markdown. A ```` ```clk fails ```` block shows the mistake (a test checks that it gives this code), a ```` ```clk ````
    /// block how it is done right (a test checks that it passes).
    pub text: &'static str,
}

/// All pages, chapter by chapter.
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

/// The page of a code, in any case.
pub fn find(code: &str) -> Option<&'static Page> {
    pages().find(|p| p.code.eq_ignore_ascii_case(code))
}
