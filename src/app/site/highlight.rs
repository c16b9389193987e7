//! Formats command output as HTML, in which diagnostic codes link to their pages.

use std::fmt::Write as _;

use clk_ide::markup::escape;

/// Formats the output of a command. `up` is the relative path from the page to the root of the site.
pub(super) fn output(text: &str, up: &str) -> String {
    let mut out = String::new();
    for line in escape(text).split_inclusive('\n') {
        let code = line.split_once('[').and_then(|(word, rest)| {
            let is_head = ["error", "warning", "note"].contains(&word);
            let code = rest.split_once(']').filter(|_| is_head)?.0;
            clk_codes::find(code).map(|page| (word.to_owned(), page.code))
        });
        match code {
            Some((word, code)) => {
                let rest = line.split_once(']').map_or("", |(_, rest)| rest);
                let link = format!("<a href=\"{up}errors/{code}.html\">{code}</a>");
                let _ = write!(out, "<span class=\"{word}\">{word}[{link}]</span>{rest}");
            }
            None => out += line,
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use clk_ide::markup::program;

    #[test]
    fn parts_of_a_program() {
        let html = program("let x = \"<\" // 1 < 2");
        let expected = "<span class=\"k\">let</span> x = <span class=\"s\">&quot;&lt;&quot;</span> <span class=\"c\">// 1 &lt; 2</span>";
        assert_eq!(html, expected);
    }

    #[test]
    fn codes_link_to_their_pages() {
        let html = output("error[E0601]: a < b\n", "../");
        assert_eq!(html, "<span class=\"error\">error[<a href=\"../errors/E0601.html\">E0601</a>]</span>: a &lt; b\n");
        assert_eq!(output("x[i]", ""), "x[i]");
    }
}
