//! All diagnostic codes with their pages for `clk explain`. Each chapter belongs to the stage that reports its codes.

pub mod check;
pub(crate) mod checks;
pub(crate) mod cost;
pub(crate) mod fault;
pub(crate) mod imports;
pub(crate) mod launch;
pub mod lints;
pub(crate) mod lower;
mod page;
pub(crate) mod ranks;
pub(crate) mod run;
pub(crate) mod script;
pub mod syntax;
pub(crate) mod tune;

pub use self::page::Page;

/// Returns all pages, chapter by chapter.
pub fn pages() -> impl Iterator<Item = &'static Page> {
    [
        syntax::PAGES,
        imports::PAGES,
        check::PAGES,
        lints::PAGES,
        lower::PAGES,
        run::PAGES,
        ranks::PAGES,
        script::PAGES,
        fault::PAGES,
        checks::PAGES,
        tune::PAGES,
        launch::PAGES,
        cost::PAGES,
    ]
    .into_iter()
    .flatten()
}

/// Returns the page of a code, ignoring case.
pub fn find(code: &str) -> Option<&'static Page> {
    pages().find(|p| p.code.eq_ignore_ascii_case(code))
}
