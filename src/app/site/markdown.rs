//! Converts Markdown to HTML. Input: a page in Markdown. Output: its HTML, headings and links. Programs are
//! highlighted. Links between files of the repository become links between pages. Diagnostic codes and modules in
//! backquotes become links to their pages.
//!
//! The Markdown may be untrusted. HTML in it is shown as text, except on Clk's own pages. External links must have one
//! of the [`SCHEMES`]. All events of the Markdown parser pass through [`HtmlWriter::events`], so that nothing reaches
//! the page unchecked.

use std::collections::{BTreeMap, BTreeSet};

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd, html};

use super::highlight;
use super::page::SitePage;
use super::plan;
use super::playground;
use super::texts::SiteSources;
use clk_compile::library;
use clk_ide::markup::{escape, program};

/// The pages and files that links can refer to.
pub(super) struct LinkTargets<'k> {
    /// For each source file, the path of its page in the site.
    pub places: &'k BTreeMap<&'k str, &'k str>,
    pub outputs: &'k BTreeSet<&'k str>,
    pub texts: &'k SiteSources,
}

/// A heading of a page, below its title.
pub(super) struct Heading {
    pub level: usize,
    pub id: String,
    pub text: String,
}

#[derive(Default)]
pub(super) struct RenderedPage {
    pub html: String,
    pub headings: Vec<Heading>,
    pub ids: BTreeSet<String>,
    /// The links with a fragment: the path of the page and the anchor in it.
    pub anchors: Vec<(String, String)>,
    /// The paths of the pictures that the page shows.
    pub pictures: BTreeSet<String>,
    pub complaints: Vec<String>,
}

pub(super) fn render(page: &SitePage, known: &LinkTargets<'_>) -> RenderedPage {
    let mut writer = HtmlWriter {
        page,
        known,
        done: RenderedPage::default(),
        up: path_to_root(&page.output),
        programs: 0,
        is_heading: false,
    };
    let out = writer.events(&mut Parser::new_ext(&page.markdown, Options::ENABLE_TABLES));
    html::push_html(&mut writer.done.html, out.into_iter());
    writer.done
}

/// Returns the text of a Markdown document without markup.
pub(super) fn plain_text(markdown: &str) -> String {
    Parser::new_ext(markdown, Options::ENABLE_TABLES).map(|event| event_text(&event).to_owned()).collect()
}

/// Returns the relative path from a page to the root folder of the site.
pub(super) fn path_to_root(output: &str) -> String {
    "../".repeat(output.matches('/').count())
}

/// Returns the anchor of a heading, by GitHub's rules.
fn slug(text: &str) -> String {
    let allowed = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    allowed.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

/// Resolves a path that is relative to the folder of a file, including `..`.
fn resolve_relative(file: &str, path: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The word after `clk` in the info string of a code block that contains the signature of an item.
pub(super) const SIGNATURE: &str = "signature";

/// The allowed schemes of external links. Other schemes, such as `javascript:`, could run code.
const SCHEMES: [&str; 3] = ["http://", "https://", "mailto:"];

/// Whether an address is an external link with an allowed scheme.
fn is_outside(url: &str) -> bool {
    SCHEMES.iter().any(|scheme| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
}

/// Whether an address begins with a scheme. Control characters and spaces are ignored, as browsers ignore them.
fn has_scheme(url: &str) -> bool {
    let start = url.split(['/', '?', '#']).next().unwrap_or("");
    start.contains(':')
}

/// The remaining events of the Markdown parser.
type MarkdownEvents<'e, 'i> = dyn Iterator<Item = Event<'e>> + 'i;

struct HtmlWriter<'w> {
    page: &'w SitePage,
    known: &'w LinkTargets<'w>,
    done: RenderedPage,
    up: String,
    /// Number of programs on the page so far.
    programs: usize,
    /// Whether the current event is inside a heading.
    is_heading: bool,
}

impl HtmlWriter<'_> {
    fn events<'e>(&mut self, events: &mut MarkdownEvents<'e, '_>) -> Vec<Event<'e>> {
        let mut out = Vec::new();
        while let Some(event) = events.next() {
            self.event(event, events, &mut out);
        }
        out
    }

    fn event<'e>(&mut self, event: Event<'e>, rest: &mut MarkdownEvents<'e, '_>, out: &mut Vec<Event<'e>>) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let inner = events_until_end(rest);
                let heading = self.heading(level, inner);
                out.push(Event::Html(heading.into()));
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                let text: String = events_until_end(rest).iter().map(event_text).collect();
                let info = match &kind {
                    CodeBlockKind::Fenced(info) => info.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                out.push(Event::Html(self.block(&info, &text).into()));
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                // The renderer adds `mailto:` to an e-mail address in angle brackets, so it needs no conversion.
                let url = if link_type == LinkType::Email { Some(dest_url.to_string()) } else { self.link(&dest_url) };
                match url {
                    Some(url) => out.push(Event::Start(Tag::Link { link_type, dest_url: url.into(), title, id })),
                    None => {
                        // The target of the link is not part of the site, so only the text of the link is kept.
                        let inner = events_until_end(rest);
                        out.extend(self.events(&mut inner.into_iter()));
                    }
                }
            }
            Event::Start(Tag::Image { dest_url, .. }) => {
                let alt: String = events_until_end(rest).iter().map(event_text).collect();
                out.push(Event::InlineHtml(self.picture(&dest_url, &alt).into()));
            }
            Event::Start(Tag::Table(columns)) => {
                out.push(Event::Html("<div class=\"table\">".into()));
                // The columns get no alignment: it would be a `style` attribute, which the content security policy
                // forbids.
                out.push(Event::Start(Tag::Table(vec![Alignment::None; columns.len()])));
            }
            Event::End(TagEnd::Table) => out.extend([Event::End(TagEnd::Table), Event::Html("</div>\n".into())]),
            Event::Code(text) if !inside_link(out) && !self.is_heading => match self.page_of_code(&text) {
                Some(url) => {
                    let (url, text) = (escape(&url), escape(&text));
                    out.push(Event::InlineHtml(format!("<a href=\"{url}\"><code>{text}</code></a>").into()));
                }
                None => out.push(Event::Code(text)),
            },
            Event::Html(text) | Event::InlineHtml(text) if !self.page.is_html => out.push(Event::Text(text)),
            other => out.push(other),
        }
    }

    fn heading(&mut self, level: HeadingLevel, inner: Vec<Event<'_>>) -> String {
        let text: String = inner.iter().map(event_text).collect();
        let mut id = slug(&text);
        let first = id.clone();
        let mut number = 1;
        while !self.done.ids.insert(id.clone()) {
            id = format!("{first}-{number}");
            number += 1;
        }
        let level = level as usize;
        let mut shown = String::new();
        // A heading is itself a link, and HTML does not allow links in links, so they are removed.
        let is_link = |event: &Event<'_>| {
            matches!(event, Event::Start(Tag::Link { .. }) | Event::End(TagEnd::Link)) && level != 1
        };
        let inner: Vec<Event<'_>> = inner.into_iter().filter(|event| !is_link(event)).collect();
        self.is_heading = true;
        let events = self.events(&mut inner.into_iter());
        self.is_heading = false;
        html::push_html(&mut shown, events.into_iter());
        if level == 1 {
            return format!("<h1 id=\"{id}\">{shown}</h1>\n");
        }
        let html = format!("<h{level} id=\"{id}\"><a class=\"anchor\" href=\"#{id}\">{shown}</a></h{level}>\n");
        self.done.headings.push(Heading { level, id, text });
        html
    }

    fn block(&mut self, info: &str, text: &str) -> String {
        let pre = |class: &str, body: &str| format!("<pre class=\"{class}\"><code>{body}</code></pre>\n");
        match info.split_once(' ').unwrap_or((info, "")) {
            ("clk", SIGNATURE) => pre("program", &program(text)) + &self.link_to_run(false),
            ("clk", "") => pre("program", &program(text)) + &self.link_to_run(true),
            ("clk", _) => pre("program wrong", &program(text)) + &self.link_to_run(true),
            ("text", command) if !command.is_empty() => {
                let mut words: Vec<&str> = command.split_whitespace().collect();
                if !command.contains("kernels.clk") && words.first() == Some(&"clk") {
                    words.push("kernels.clk");
                }
                let command = escape(&words.join(" "));
                format!(
                    "<div class=\"shown\"><div class=\"command\">$ {command}</div>{}</div>\n",
                    pre("output", &highlight::output(text, &self.up))
                )
            }
            ("text" | "", _) => pre("output", &highlight::output(text, &self.up)),
            ("sh", _) => pre("shell", &escape(text)),
            _ => pre("foreign", &escape(text)),
        }
    }

    /// Counts a program. Returns the link that opens it in the playground, if the site has one.
    fn link_to_run(&mut self, is_whole: bool) -> String {
        self.programs += 1;
        let is_there = is_whole && self.known.outputs.contains(playground::OUTPUT);
        if is_there { playground::link(&self.up, &self.page.output, self.programs) } else { String::new() }
    }

    /// Converts the target of a link to a path in the site. `None` if the target is not part of the site.
    fn link(&mut self, url: &str) -> Option<String> {
        if is_outside(url) {
            return Some(url.to_owned());
        }
        if has_scheme(url) {
            self.done.complaints.push(format!("the link `{url}` begins with none of `{}`", SCHEMES.join("`, `")));
            return None;
        }
        let (path, anchor) = url.split_once('#').map_or((url, None), |(path, anchor)| (path, Some(anchor)));
        let target = if path.is_empty() {
            self.page.output.clone()
        } else if self.page.source.is_empty() {
            resolve_relative(&self.page.output, path)
        } else {
            let source = resolve_relative(&self.page.source, path);
            match self.known.places.get(source.as_str()) {
                Some(output) => (*output).to_owned(),
                None if self.known.texts.root.as_ref().is_none_or(|root| root.join(&source).exists()) => return None,
                None => {
                    self.done.complaints.push(format!("the link `{url}` leads nowhere"));
                    return None;
                }
            }
        };
        if !self.known.outputs.contains(target.as_str()) {
            self.done.complaints.push(format!("the link `{url}` leads to `{target}`, which is not a page"));
            return None;
        }
        if let Some(anchor) = anchor.filter(|anchor| !anchor.is_empty()) {
            self.done.anchors.push((target.clone(), anchor.to_owned()));
        }
        let anchor = anchor.map_or(String::new(), |anchor| format!("#{anchor}"));
        Some(if path.is_empty() { anchor } else { format!("{}{target}{anchor}", self.up) })
    }

    fn picture(&mut self, url: &str, alt: &str) -> String {
        let source = resolve_relative(&self.page.source, url);
        let Some(bytes) = self.known.texts.pictures.get(&source) else {
            self.done.complaints.push(format!("there is no picture `{url}`"));
            return String::new();
        };
        if alt.is_empty() {
            self.done.complaints.push(format!("the picture `{url}` has no description"));
        }
        let size = png_size(bytes).map_or(String::new(), |(w, h)| format!(" width=\"{w}\" height=\"{h}\""));
        let html = format!(
            "<img src=\"{}{}\" alt=\"{}\"{size} loading=\"lazy\">",
            self.up,
            escape(&plan::picture(&source)),
            escape(alt)
        );
        self.done.pictures.insert(source);
        html
    }

    /// Returns the path of the page for a diagnostic code or a standard library module; `None` if there is none.
    fn page_of_code(&self, text: &str) -> Option<String> {
        let target = match clk_codes::find(text) {
            Some(page) if page.code == text => format!("errors/{text}.html"),
            _ => {
                let rest = text.strip_prefix("std.")?;
                let (module, member) = rest.split_once('.').map_or((rest, None), |(m, name)| (m, Some(name)));
                let page = format!("std/{module}.html");
                match member {
                    None => page,
                    Some(name) if library::members(module).iter().any(|member| member.name == name) => {
                        format!("{page}#{}", slug(name))
                    }
                    Some(_) => return None,
                }
            }
        };
        let page = target.split('#').next().unwrap_or("");
        self.known.outputs.contains(page).then(|| format!("{}{target}", self.up))
    }
}

/// Takes the events up to the end of the current element. Its start event has already been taken.
fn events_until_end<'e>(rest: &mut MarkdownEvents<'e, '_>) -> Vec<Event<'e>> {
    let mut depth = 0usize;
    let mut inner = Vec::new();
    for event in rest {
        match &event {
            Event::Start(_) => depth += 1,
            Event::End(_) if depth == 0 => break,
            Event::End(_) => depth -= 1,
            _ => {}
        }
        inner.push(event);
    }
    inner
}

/// Returns the text that an event contains, without markup.
fn event_text<'e>(event: &'e Event<'_>) -> &'e str {
    match event {
        Event::Text(text) | Event::Code(text) => text,
        Event::SoftBreak | Event::HardBreak => " ",
        _ => "",
    }
}

/// Whether the next event is written inside a link.
fn inside_link(out: &[Event<'_>]) -> bool {
    let last = out.iter().rev().find(|e| matches!(e, Event::Start(Tag::Link { .. }) | Event::End(TagEnd::Link)));
    matches!(last, Some(Event::Start(_)))
}

/// Returns the width and height of a PNG file.
fn png_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    (bytes.get(12..16)? == b"IHDR").then_some(())?;
    Some((number(16)?, number(20)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_of_headings() {
        assert_eq!(slug("What is a fault"), "what-is-a-fault");
        assert_eq!(slug("`clk run`: a, b"), "clk-run-a-b");
    }

    #[test]
    fn paths() {
        assert_eq!(resolve_relative("docs/book/a.md", "../tiles.md"), "docs/tiles.md");
        assert_eq!(resolve_relative("README.md", "docs/tiles.md"), "docs/tiles.md");
        assert_eq!(path_to_root("errors/E0101.html"), "../");
    }

    #[test]
    fn links_and_programs() {
        let page = SitePage {
            source: "docs/a.md".into(),
            output: "a.html".into(),
            title: "A".into(),
            is_html: false,
            markdown: "# A\n\n## Two `b`s\n\nSee [b](book/b.md#x), [c](c.md), `E0601`.\n\n```clk\nlet x = 1\n```\n"
                .into(),
        };
        let (places, outputs) =
            (BTreeMap::from([("docs/book/b.md", "book/b.html")]), BTreeSet::from(["book/b.html", "errors/E0601.html"]));
        let texts = SiteSources { root: Some("/nowhere".into()), ..SiteSources::default() };
        let done = render(&page, &LinkTargets { places: &places, outputs: &outputs, texts: &texts });
        for part in [
            "<h2 id=\"two-bs\">",
            "<a href=\"book/b.html#x\">b</a>",
            "errors/E0601.html",
            "<span class=\"k\">let</span>",
        ] {
            assert!(done.html.contains(part), "{part}: {}", done.html);
        }
        assert_eq!(done.complaints, ["the link `c.md` leads nowhere"]);
        assert_eq!(done.anchors, [("book/b.html".to_string(), "x".to_string())]);
    }

    /// Converts a text for a test, in a site without other pages.
    fn html_of(markdown: &str) -> RenderedPage {
        let (source, output) = (String::new(), "programs/a.html".to_owned());
        let page = SitePage { source, output, title: "A".into(), is_html: false, markdown: markdown.into() };
        let targets =
            LinkTargets { places: &BTreeMap::new(), outputs: &BTreeSet::new(), texts: &SiteSources::default() };
        render(&page, &targets)
    }

    #[test]
    fn html_is_shown_as_text() {
        let script = "<script>alert(1)</script>";
        for (before, after) in [
            ("", ""),
            ("a ", " b"),
            ("# ", ""),
            ("## ", " x"),
            ("- ", ""),
            ("| a |\n| --- |\n| ", " |"),
            ("[", "](nowhere.html)"),
            ("[", "](https://example.org)"),
            ("## [", "](https://example.org)"),
            ("![", "](a.png)"),
            ("![a ![", "](b.png)](c.png)"),
            ("`", "`"),
            ("```text\n", "\n```"),
            ("```text clk ", "\nx\n```"),
            ("```", "\nx\n```"),
            ("    ", ""),
            ("> ", ""),
            ("**", "**"),
            ("[a](https://example.org \"\\\">", "\")"),
            ("[a](https://example.org/\">", ")"),
            ("<https://example.org/\">", ">"),
        ] {
            for hostile in [script, "<img src=x onerror=alert(1)>", "<!-- -->", "<a href=\"javascript:alert(1)\">x</a>"]
            {
                let html = html_of(&format!("{before}{hostile}{after}")).html;
                for tag in ["<script", "<img", "<!--", "<a href=\"javascript:"] {
                    assert!(!html.contains(tag), "{before}{hostile}{after}: {html}");
                }
            }
        }
    }

    #[test]
    fn links_have_one_of_few_schemes() {
        for url in ["http://example.org/a", "HTTPS://example.org", "mailto:a@example.org"] {
            let done = html_of(&format!("[a](<{url}>)"));
            assert!(done.html.contains(&format!("href=\"{url}\"")) && done.complaints.is_empty(), "{}", done.html);
        }
        assert!(html_of("<a@example.org>").html.contains("href=\"mailto:a@example.org\""));
        for url in [
            "javascript:alert(1)",
            "javascript://%0aalert(1)",
            "JavaScript:alert(1)",
            " javascript:alert(1)",
            "java&#x09;script:alert(1)",
            "&#1;javascript:alert(1)",
            "data:text/html,<script>alert(1)</script>",
            "vbscript:x",
            "file:///etc/passwd",
            "//example.org/x",
            "\\\\example.org",
        ] {
            for text in [format!("[a](<{url}>)"), format!("## [a](<{url}>)\n\nx"), format!("[a][b]\n\n[b]: <{url}>")] {
                let html = html_of(&text).html;
                assert_eq!(html.matches("href=").count(), html.matches("href=\"#").count(), "{text}: {html}");
            }
            assert!(!html_of(&format!("# [a](<{url}>)")).html.contains("href="), "{url}");
            assert!(!html_of(&format!("<{url}>")).html.contains("href="), "{url}");
        }
    }
}
