//! Finds import cycles among the files of a layer, with the importing lines.
//!
//! A file imports another if it names an item defined there. Names are resolved through re-exports to the defining
//! file, so
//! `mod x;` and `pub use` are not edges: a `mod.rs` that only declares and re-exports its children is in no cycle.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Strings, Token, code, tokens};

/// An import: one file names an item of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    pub from: String,
    pub to: String,
    /// The line of the first use, and its text.
    pub line: usize,
    pub text: String,
}

/// Files that all import each other, directly or indirectly, with the imports among them.
#[derive(Debug, PartialEq, Eq)]
pub struct Circle {
    pub files: Vec<String>,
    pub edges: Vec<Edge>,
}

impl std::fmt::Display for Circle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "a circle of {} files:", self.files.len())?;
        self.edges.iter().try_for_each(|e| writeln!(f, "  {}:{} -> {}: {}", e.from, e.line, e.to, e.text))
    }
}

type Path = Vec<String>;

/// A name that a `use` imports.
struct Import {
    path: Path,
    line: usize,
    is_public: bool,
}

/// A path in code, and the number of inline modules around it.
struct PathUse {
    path: Path,
    line: usize,
    inside: usize,
}

#[derive(Default)]
struct File {
    path: String,
    module: Path,
    /// Imports by their local name.
    imports: HashMap<String, Import>,
    globs: Vec<Import>,
    defined: BTreeSet<String>,
    /// Paths that the code names outside of `use`.
    named: Vec<PathUse>,
}

pub fn circles(sources: &[(String, String)]) -> Vec<Circle> {
    let is_test = |path: &str| path.ends_with("/tests.rs") || path.contains("/tests/");
    let own_sources: Vec<_> = sources.iter().filter(|(path, _)| path.starts_with("src/") && !is_test(path)).collect();
    let modules: HashMap<Path, usize> =
        own_sources.iter().enumerate().map(|(i, (path, _))| (module_of(path), i)).collect();
    let files: Vec<File> = own_sources.iter().map(|(path, text)| read(path, text, &modules)).collect();
    let tree = Tree { modules, files };
    let mut edges: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for (from, to, line) in (0..tree.files.len()).flat_map(|from| tree.edges_of(from)) {
        let layer = |file: usize| tree.files[file].module.first();
        if from != to && layer(from) == layer(to) && layer(from).is_some() {
            let first = edges.entry((from, to)).or_insert(line);
            *first = line.min(*first);
        }
    }
    let groups = components(tree.files.len(), &edges.keys().copied().collect::<Vec<_>>());
    let mut circles: Vec<Circle> = groups
        .into_iter()
        .map(|group| {
            let inside = edges.iter().filter(|((from, to), _)| group.contains(from) && group.contains(to));
            let edge = |((from, to), line): (&(usize, usize), &usize)| Edge {
                from: tree.files[*from].path.clone(),
                to: tree.files[*to].path.clone(),
                line: *line,
                text: own_sources[*from].1.lines().nth(line - 1).unwrap_or("").trim().to_string(),
            };
            let mut files: Vec<String> = group.iter().map(|&file| tree.files[file].path.clone()).collect();
            files.sort();
            Circle { files, edges: inside.map(edge).collect() }
        })
        .collect();
    circles.sort_by(|a, b| a.files.cmp(&b.files));
    circles
}

/// Returns the module path of a file, which begins with the folder of the crate: `src/app/cli/mod.rs` is `app::cli`.
fn module_of(path: &str) -> Path {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    let parts: Path = inner.split('/').map(str::to_string).collect();
    match parts.last().map(String::as_str) {
        Some("mod" | "lib" | "main") => parts[..parts.len() - 1].to_vec(),
        _ => parts,
    }
}

fn read(path: &str, text: &str, modules: &HashMap<Path, usize>) -> File {
    let mut file = File { path: path.to_string(), module: module_of(path), ..File::default() };
    let code = code(text, Strings::Blanked);
    let tokens = tokens(&code);
    let mut rest = Vec::new();
    // The enclosing inline modules, each with the brace depth at its beginning.
    let (mut depth, mut open) = (0, Vec::<(usize, String)>::new());
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].text {
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                open.retain(|(began, _)| *began < depth + 1);
            }
            "mod" if tokens.get(at + 2).is_some_and(|t| t.text == "{") => {
                open.push((depth + 1, tokens[at + 1].text.to_string()));
            }
            _ => {}
        }
        let module: Path = file.module.iter().chain(open.iter().map(|(_, name)| name)).cloned().collect();
        if tokens[at].text == "use"
            && tokens.get(at + 1).is_some_and(|t| t.is_word() || t.text == "{" || t.text == "::")
        {
            let is_public = at > 0 && (tokens[at - 1].text == "pub" || is_restricted_pub(&tokens[..at]));
            let end = at + tokens[at..].iter().position(|t| t.text == ";").unwrap_or(tokens.len() - at);
            let scope = Scope { module, is_public, modules };
            use_tree(&tokens[at + 1..end], &[], &scope, &mut file);
            at = end;
        } else {
            rest.push((tokens[at].clone(), open.len()));
            at += 1;
        }
    }
    let inner: Vec<usize> = rest.iter().map(|(_, depth)| *depth).collect();
    let rest: Vec<Token> = rest.into_iter().map(|(token, _)| token).collect();
    for pair in rest.windows(2) {
        let defines = ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "mod", "!"];
        if defines.contains(&pair[0].text) && pair[1].is_word() {
            file.defined.insert(pair[1].text.to_string());
        }
    }
    file.named = paths(&rest, &inner);
    file
}

/// The module that contains a `use`, whether the `use` is public, and all modules.
struct Scope<'m> {
    module: Path,
    is_public: bool,
    modules: &'m HashMap<Path, usize>,
}

/// Returns whether the tokens end in `pub(…)`.
fn is_restricted_pub(tokens: &[Token]) -> bool {
    let open = tokens.iter().rposition(|t| t.text == "(");
    tokens.last().is_some_and(|t| t.text == ")") && open.is_some_and(|at| at > 0 && tokens[at - 1].text == "pub")
}

/// Adds the names that a `use` tree imports.
fn use_tree(tree: &[Token], before: &[String], scope: &Scope, file: &mut File) {
    let Scope { module, is_public, modules } = scope;
    let is_public = *is_public;
    let mut path = before.to_vec();
    for (at, token) in tree.iter().enumerate() {
        match token.text {
            "::" => {}
            "{" => {
                let mut depth = 0;
                let mut start = at + 1;
                for (i, inner) in tree.iter().enumerate().skip(at) {
                    match inner.text {
                        "{" => depth += 1,
                        "}" if depth == 1 => return use_tree(&tree[start..i], &path, scope, file),
                        "}" => depth -= 1,
                        "," if depth == 1 => {
                            use_tree(&tree[start..i], &path, scope, file);
                            start = i + 1;
                        }
                        _ => {}
                    }
                }
                return;
            }
            "*" => {
                let path = absolute(&path, module, file, modules);
                file.globs.extend(path.map(|path| Import { path, line: token.line, is_public }));
                return;
            }
            "as" => break,
            "self" if !path.is_empty() => {}
            word => path.push(word.to_string()),
        }
    }
    let (Some(first), Some(own)) = (tree.first(), tree.last().map(|t| t.text)) else { return };
    let name = if own == "self" { path.last().cloned() } else { Some(own.to_string()) };
    if let (Some(path), Some(name)) = (absolute(&path, module, file, modules), name) {
        file.imports.insert(name, Import { path, line: first.line, is_public });
    }
}

/// Returns a path that begins with the crate; `None` for a path of another crate.
fn absolute(path: &[String], module: &[String], file: &File, modules: &HashMap<Path, usize>) -> Option<Path> {
    let mut base = match path.first()?.as_str() {
        "crate" => vec![module.first()?.clone()],
        "self" | "super" => module.to_vec(),
        child => {
            let inner: Path = module.iter().cloned().chain([child.to_string()]).collect();
            if !modules.contains_key(&inner) {
                let import = file.imports.get(child)?;
                return Some(import.path.iter().chain(&path[1..]).cloned().collect());
            }
            return Some(module.iter().chain(path).cloned().collect());
        }
    };
    let ups = path.iter().take_while(|s| *s == "super").count()
        + usize::from(path.get(1).is_some_and(|s| s == "super") && path[0] == "self");
    base.truncate(base.len().saturating_sub(ups));
    let skipped = path.iter().take_while(|s| ["crate", "self", "super"].contains(&s.as_str())).count();
    base.extend(path[skipped..].iter().cloned());
    Some(base)
}

/// Returns the paths in some code: words joined by `::`.
fn paths(tokens: &[Token], inside: &[usize]) -> Vec<PathUse> {
    let mut uses = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        // Names after `.`, `fn`, `let` and `mut` are methods and declarations, and do not refer to an imported item.
        let is_called = tokens.get(at + 1).is_some_and(|t| t.text == "(" || t.text == "::");
        let is_name = is_called || tokens[at].text.starts_with(char::is_uppercase);
        let before = at.checked_sub(1).map_or("", |before| tokens[before].text);
        let is_start = tokens[at].is_word() && is_name && ![".", "::", "fn", "let", "mut"].contains(&before);
        let mut path = vec![tokens[at].text.to_string()];
        let (line, inside) = (tokens[at].line, inside[at]);
        at += 1;
        while is_start && at + 1 < tokens.len() && tokens[at].text == "::" && tokens[at + 1].is_word() {
            path.push(tokens[at + 1].text.to_string());
            at += 2;
        }
        if is_start {
            uses.push(PathUse { path, line, inside });
        }
    }
    uses
}

struct Tree {
    modules: HashMap<Path, usize>,
    files: Vec<File>,
}

impl Tree {
    /// Returns the importing file, the imported file and the line of all imports.
    fn edges_of(&self, from: usize) -> Vec<(usize, usize, usize)> {
        let file = &self.files[from];
        let mut edges = Vec::new();
        let mut add = |target: Option<usize>, line: usize| edges.extend(target.map(|to| (from, to, line)));
        for import in file.imports.values().filter(|import| !import.is_public) {
            add(self.item(&import.path), import.line);
        }
        // A glob import adds edges only for the names that the code uses.
        let (of_modules, of_types): (Vec<_>, Vec<_>) =
            file.globs.iter().partition(|glob| self.modules.contains_key(&glob.path));
        for glob in of_types.into_iter().filter(|glob| !glob.is_public) {
            add(self.item(&glob.path), glob.line);
        }
        for PathUse { path, line, inside } in &file.named {
            let is_passed_on = file.imports.get(&path[0]).is_some_and(|import| import.is_public);
            if path.len() > 1 || is_passed_on {
                // Stands in for the inline modules, whose number affects the target of `super`, but whose names do not.
                let module: Path = file.module.iter().cloned().chain(vec![String::new(); *inside]).collect();
                let full = absolute(path, &module, file, &self.modules);
                add(full.and_then(|path| self.item(&path)), *line);
            }
            let is_known = file.imports.contains_key(&path[0]) || file.defined.contains(&path[0]);
            for glob in of_modules.iter().filter(|_| !is_known) {
                let full: Path = glob.path.iter().chain(path).cloned().collect();
                let has_import = |to: &usize| {
                    self.files[*to].defined.contains(path.last().unwrap_or(&path[0]))
                        || self.files[*to].defined.contains(&path[0])
                };
                add(self.item(&full).filter(has_import), *line);
            }
        }
        edges
    }

    /// Returns the file that defines the item of a path; `None` if the path is that of a module.
    fn item(&self, path: &[String]) -> Option<usize> {
        self.follow(path, 16)
    }

    fn follow(&self, path: &[String], fuel: usize) -> Option<usize> {
        let depth = (0..=path.len()).rev().find(|&depth| self.modules.contains_key(&path[..depth]))?;
        let index = self.modules[&path[..depth]];
        let file = &self.files[index];
        let name = path.get(depth)?;
        if file.defined.contains(name) || fuel == 0 {
            return Some(index);
        }
        if let Some(import) = file.imports.get(name) {
            let full: Path = import.path.iter().chain(&path[depth + 1..]).cloned().collect();
            return self.follow(&full, fuel - 1);
        }
        let through = |glob: &Import| {
            let full: Path = glob.path.iter().chain(&path[depth..]).cloned().collect();
            self.follow(&full, fuel - 1).filter(|&to| self.files[to].defined.contains(name))
        };
        file.globs.iter().find_map(through).or(Some(index))
    }
}

/// Returns the strongly connected components with more than one node.
fn components(nodes: usize, edges: &[(usize, usize)]) -> Vec<BTreeSet<usize>> {
    let reach = |start: usize, forward: bool| {
        let mut reached = BTreeSet::from([start]);
        let mut open = vec![start];
        while let Some(node) = open.pop() {
            for &(from, to) in edges {
                let (here, there) = if forward { (from, to) } else { (to, from) };
                if here == node && reached.insert(there) {
                    open.push(there);
                }
            }
        }
        reached
    };
    let mut left: BTreeSet<usize> = (0..nodes).filter(|n| edges.iter().any(|(from, _)| from == n)).collect();
    let mut groups = Vec::new();
    while let Some(&start) = left.iter().next() {
        let group: BTreeSet<usize> = reach(start, true).intersection(&reach(start, false)).copied().collect();
        left.retain(|node| !group.contains(node));
        if group.len() > 1 {
            groups.push(group);
        }
    }
    groups
}

#[test]
fn import_cycles_are_found() {
    let circles_of = |files: &[(&str, &str)]| -> Vec<Vec<String>> {
        let sources: Vec<_> = files.iter().map(|(p, t)| (format!("src/{p}"), t.to_string())).collect();
        circles(&sources).into_iter().map(|c| c.files).collect()
    };
    let siblings = [
        ("r/mod.rs", "mod a; mod b;"),
        ("r/a.rs", "use super::b::B; struct A;"),
        ("r/b.rs", "fn f(a: super::a::A) {} struct B;"),
    ];
    assert_eq!(circles_of(&siblings), [["src/r/a.rs", "src/r/b.rs"]]);
    let parent = [("r/mod.rs", "mod a; pub struct P; fn f() { a::g() }"), ("r/a.rs", "use super::P; pub fn g() {}")];
    assert_eq!(circles_of(&parent), [["src/r/a.rs", "src/r/mod.rs"]]);
    // A re-exported item belongs to the file that defines it.
    let reexported = [
        ("r/mod.rs", "mod a; mod b; pub use b::B; pub fn f() { a::g() }"),
        ("r/a.rs", "use super::B; pub fn g() {}"),
        ("r/b.rs", "pub struct B;"),
    ];
    assert_eq!(circles_of(&reexported), [[""; 0]; 0]);
    // If a file re-exports a name and also uses it, that use is an edge.
    let used = [("r/mod.rs", "mod a; pub use a::A; pub struct P(A);"), ("r/a.rs", "pub struct A(super::P);")];
    assert_eq!(circles_of(&used), [["src/r/a.rs", "src/r/mod.rs"]]);
    // The intermediate modules of a path cause no edges, and comments, strings and tests are ignored.
    let quiet = [
        ("r/mod.rs", "pub mod a; pub mod b; fn f() { a::g() }"),
        (
            "r/a.rs",
            "use super::b; // super::f\nfn g() { b::h(\"crate::f\") }\n#[cfg(test)]\nmod tests { use super::super::f; }",
        ),
        ("r/b.rs", "pub fn h() {}"),
    ];
    assert_eq!(circles_of(&quiet), [[""; 0]; 0]);
    let inner = [
        ("r/mod.rs", "mod a; fn f() { a::g() }"),
        ("r/a.rs", "pub fn g() {} fn end() {} mod unix { fn h() { super::end() } }"),
    ];
    assert_eq!(circles_of(&inner), [[""; 0]; 0]);
    let grouped = [
        ("r/mod.rs", "mod a; mod b;"),
        ("r/a.rs", "use super::{c, b::{self, B as C}}; struct A;"),
        ("r/b.rs", "use super::a as x; fn f(_: x::A) {} struct B;"),
    ];
    assert_eq!(circles_of(&grouped), [["src/r/a.rs", "src/r/b.rs"]]);
}
