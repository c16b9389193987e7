//! A page of the site before it is rendered.

/// A page before rendering.
pub(super) struct SitePage {
    /// The path of the source file in the repository; empty for a generated page.
    pub source: String,
    /// The path of the page in the site.
    pub output: String,
    pub title: String,
    /// Whether HTML in the text is kept as HTML. Allowed only for texts that are part of this binary.
    pub is_html: bool,
    pub markdown: String,
}
