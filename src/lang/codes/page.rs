//! The type of a diagnostic code's page.

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

/// Defines a page: code, title, explanation, an example that fails and one that passes.
macro_rules! page {
    ($code:literal, $title:literal, $about:literal, $wrong:literal, $right:literal) => {
        Page {
            code: $code,
            title: $title,
            text: concat!($about, "\n\n```clk fails\n", $wrong, "```\n\nInstead:\n\n```clk\n", $right, "```\n"),
        }
    };
}
pub(crate) use page;
