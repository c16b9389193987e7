//! A page of the site before it is rendered.

/// A page before rendering.
pub(super) struct Page {
    /// The file it is made of, from the root of the repository; empty if Clk makes it.
    pub source: String,
    /// The file that is written, from the root of the site.
    pub output: String,
    pub title: String,
    /// Whether HTML in the text is part of the page. Only texts in this binary may have it.
    pub is_html: bool,
    pub markdown: String,
}
