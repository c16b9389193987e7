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
