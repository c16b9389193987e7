//! A row of the table of foreign names, and the texts that diagnostics show for it.

/// The language or library that a name comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameOrigin {
    NumPy,
    Python,
    Cuda,
    Triton,
    Numba,
    Warp,
    /// Several languages, so that messages name none.
    Other,
}

impl NameOrigin {
    /// Returns the name of the language, if there is a single one.
    pub fn language(self) -> Option<&'static str> {
        Some(match self {
            NameOrigin::NumPy => "NumPy",
            NameOrigin::Python => "Python",
            NameOrigin::Cuda => "CUDA",
            NameOrigin::Triton => "Triton",
            NameOrigin::Numba => "Numba",
            NameOrigin::Warp => "Warp",
            NameOrigin::Other => return None,
        })
    }
}

/// Clk's equivalent of a foreign name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClkEquivalent {
    /// Clk has the same function under the same name.
    Same,
    /// Clk's name, which replaces the foreign name and takes the same arguments.
    Name(&'static str),
    /// A Clk expression, statement or definition with the usual names of its operands: `x` and `y` are vectors, `a` and
    /// `b` matrices. `x` is the foreign function's first argument. The note is empty or continues the sentence.
    Code { clk: &'static str, note: &'static str },
    /// Clk has no equivalent. The reason continues "because"; the alternative is a sentence without a period.
    Absent { reason: &'static str, alternative: &'static str },
}

/// A row of the table: foreign names that have the same equivalent.
#[derive(Clone, Copy, Debug)]
pub struct ForeignName {
    /// The names, separated by spaces. A name may have the prefix of its module, as in `tl.load`.
    pub names: &'static str,
    pub origin: NameOrigin,
    pub equivalent: ClkEquivalent,
    /// Whether the names are also common English, so that one may be a misspelled or undeclared variable.
    pub is_common_word: bool,
}

impl ForeignName {
    pub(super) const fn new(origin: NameOrigin, names: &'static str, equivalent: ClkEquivalent) -> ForeignName {
        ForeignName { names, origin, equivalent, is_common_word: false }
    }

    pub(super) const fn common(self) -> ForeignName {
        ForeignName { is_common_word: true, ..self }
    }

    /// Returns Clk's name for `name`, one of the names of this row, if replacing it is enough.
    pub fn replacement<'n>(&self, name: &'n str) -> Option<&'n str> {
        match self.equivalent {
            ClkEquivalent::Name(clk) => Some(clk),
            ClkEquivalent::Same => Some(last_name(name)),
            _ => None,
        }
    }

    /// Describes the equivalent of `name`, one of the names of this row, as the help of a diagnostic: a sentence
    /// without a period.
    pub fn help(&self, name: &str) -> String {
        self.help_with(name, None)
    }

    /// Like [`help`](Self::help), but `argument`, the text of the first argument, replaces the operand `x`.
    pub fn help_with(&self, name: &str, argument: Option<&str>) -> String {
        match self.equivalent {
            ClkEquivalent::Same => format!("Clk calls it `{}`", last_name(name)),
            ClkEquivalent::Name(clk) => format!("Clk calls it `{clk}`"),
            ClkEquivalent::Code { clk, note } => {
                let owner = self.origin.language().map(|language| format!("{language}'s ")).unwrap_or_default();
                let code = argument.map_or_else(|| clk.to_owned(), |argument| with_argument(clk, argument));
                let import = match imported_module(clk) {
                    Some(module) => format!(", after `import std.{module}`"),
                    None => String::new(),
                };
                let note = if note.is_empty() { String::new() } else { format!("; {note}") };
                format!("{owner}`{name}` is `{code}` in Clk{import}{note}")
            }
            ClkEquivalent::Absent { reason, alternative } => {
                format!("`{name}` is not in Clk, because {reason}: {alternative}")
            }
        }
    }

    /// Returns whether Clk's equivalent is an item of the standard library with this name.
    pub fn is_library_item(&self, name: &str) -> bool {
        let ClkEquivalent::Code { clk, .. } = self.equivalent else { return false };
        let item = clk.split_once('.').and_then(|(module, rest)| Some((module, rest.split_once('(')?.0)));
        item.is_some_and(|(module, item)| LIBRARY_PREFIXES.contains(&module) && item == name)
    }

    /// Returns the code that replaces `name(argument)`, if the equivalent has no other operands.
    pub fn unary_code(&self, argument: &str) -> Option<String> {
        let ClkEquivalent::Code { clk, .. } = self.equivalent else { return None };
        let is_statement = clk.contains('{') || clk.contains(" = ");
        let has_other_operands = operands(clk).any(|operand| operand != "x");
        (!is_statement && !has_other_operands && imported_module(clk).is_none()).then(|| with_argument(clk, argument))
    }
}

/// Modules of the standard library that the code of a row may use. The row's names of items have these prefixes.
const LIBRARY_PREFIXES: &[&str] =
    &["arrays", "complex", "fft", "histogram", "linalg", "math", "nn", "random", "scan", "sort"];

/// Returns the module that code of a row must import.
fn imported_module(code: &str) -> Option<&'static str> {
    let uses = |module: &&&str| {
        words(code).any(|(start, word)| word == **module && code[start + word.len()..].starts_with('.'))
    };
    LIBRARY_PREFIXES.iter().find(uses).copied()
}

/// Returns the words of a text, each with its position.
fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + code[rest..].find(is_part)?;
        let end = code[start..].find(|c| !is_part(c)).map_or(code.len(), |length| start + length);
        rest = end;
        Some((start, &code[start..end]))
    })
}

/// Returns the variables of an expression: the words that are neither numbers, functions, fields nor named arguments.
fn operands(code: &str) -> impl Iterator<Item = &str> {
    let is_operand = |&(start, word): &(usize, &str)| {
        let after = &code[start + word.len()..];
        let is_named_argument = after.starts_with(" = ");
        let is_field = code[..start].ends_with('.') && !code[..start].ends_with("..");
        word.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && !after.starts_with('(')
            && !is_named_argument
            && !is_field
            && !matches!(word, "true" | "false")
    };
    words(code).filter(is_operand).map(|(_, word)| word)
}

/// Replaces the operand `x` of an expression.
fn with_argument(code: &str, argument: &str) -> String {
    let mut text = String::new();
    let mut copied = 0;
    for (start, _) in words(code).filter(|(_, word)| *word == "x") {
        // `z.x` is a component.
        if code[..start].ends_with('.') && !code[..start].ends_with("..") {
            continue;
        }
        text += &code[copied..start];
        text += argument;
        copied = start + 1;
    }
    text + &code[copied..]
}

/// Returns the last name of a path.
pub fn last_name(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::with_argument;

    #[test]
    fn the_argument_replaces_only_the_variable() {
        assert_eq!(with_argument("f32(x) * x[..2] + z.x", "t"), "f32(t) * t[..2] + z.x");
    }
}
