//! The standard library: modules written in Clk and embedded in the binary. A crate of its own beside them, since a
//! package holds only what lies in its folder.

/// The modules: name after `std.` and text.
#[rustfmt::skip]
pub static MODULES: &[(&str, &str)] = &[
    ("arrays", include_str!("arrays.clk")),
    ("complex", include_str!("complex.clk")),
    ("factorizations", include_str!("factorizations.clk")),
    ("fft", include_str!("fft.clk")),
    ("histogram", include_str!("histogram.clk")),
    ("image", include_str!("image.clk")),
    ("jacobi", include_str!("jacobi.clk")),
    ("linalg", include_str!("linalg.clk")),
    ("math", include_str!("math.clk")),
    ("nn", include_str!("nn.clk")),
    ("optim", include_str!("optim.clk")),
    ("products", include_str!("products.clk")),
    ("random", include_str!("random.clk")),
    ("reduce", include_str!("reduce.clk")),
    ("scan", include_str!("scan.clk")),
    ("sort", include_str!("sort.clk")),
    ("sparse", include_str!("sparse.clk")),
    ("transforms", include_str!("transforms.clk")),
];

/// Returns the text of `std.<name>`.
pub fn text(name: &str) -> Option<&'static str> {
    MODULES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A public name of a module: a definition documented with an example, or a documented struct.
pub struct Member {
    pub name: &'static str,
    /// The documentation before the example.
    pub about: String,
}

/// Returns the public names of a module, in textual order.
pub fn members(module: &str) -> Vec<Member> {
    let mut members = Vec::new();
    let mut doc: Vec<&str> = Vec::new();
    for line in text(module).unwrap_or("").lines() {
        if let Some(words) = line.strip_prefix("///") {
            doc.push(words.trim());
            continue;
        }
        let item = ["fn", "kernel", "const", "struct"].into_iter().find_map(|keyword| {
            let rest = line.strip_prefix(keyword)?.strip_prefix(' ')?;
            Some((keyword, rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?))
        });
        let example = doc.iter().position(|line| line.starts_with("```"));
        if let Some((keyword, name)) = item
            && (example.is_some() || keyword == "struct" && !doc.is_empty())
        {
            let about = doc.iter().take(example.unwrap_or(doc.len())).filter(|line| !line.is_empty());
            members.push(Member { name, about: about.copied().collect::<Vec<_>>().join(" ") });
        }
        doc.clear();
    }
    members
}

/// Returns the summary of a module: the first line of its documentation.
pub fn about(module: &str) -> &'static str {
    text(module).and_then(|text| text.lines().next()).and_then(|line| line.strip_prefix("///")).unwrap_or("").trim()
}

/// Returns the modules that have a public name.
pub fn homes(name: &str) -> Vec<&'static str> {
    let has = |module: &&str| members(module).iter().any(|member| member.name == name);
    MODULES.iter().map(|(module, _)| *module).filter(has).collect()
}

/// Returns the module that has a public name; `None` if there are several. For the path of a module, such as
/// `std.reduce`, returns that module.
pub fn home(name: &str) -> Option<&'static str> {
    if let Some(module) = name.strip_prefix("std.") {
        return MODULES.iter().map(|(known, _)| *known).find(|known| *known == module);
    }
    match homes(name).as_slice() {
        [one] => Some(one),
        _ => None,
    }
}
