//! A parser of the Python literals in .npy headers: strings, integers, booleans, lists, tuples and one dictionary.

/// A literal; a tuple is represented as a list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Text(String),
    Int(u64),
    Bool(bool),
    List(Vec<Literal>),
}

/// Maximum nesting depth; NumPy writes no deeper nesting.
const DEPTH: usize = 8;

/// Parses a dictionary; `None` if the text is not one.
pub(crate) fn dictionary(text: &str) -> Option<Vec<(String, Literal)>> {
    let mut reader = Reader { rest: text };
    let mut entries = Vec::new();
    reader.expect('{')?;
    while !reader.take('}') {
        let Literal::Text(key) = reader.value(DEPTH)? else { return None };
        reader.expect(':')?;
        entries.push((key, reader.value(DEPTH)?));
        if !reader.take(',') {
            reader.expect('}')?;
            break;
        }
    }
    reader.rest.trim_matches([' ', '\n', '\0']).is_empty().then_some(entries)
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn take(&mut self, c: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, c: char) -> Option<()> {
        self.take(c).then_some(())
    }

    fn value(&mut self, depth: usize) -> Option<Literal> {
        let depth = depth.checked_sub(1)?;
        self.rest = self.rest.trim_start();
        match self.rest.chars().next()? {
            '(' => self.list('(', ')', depth),
            '[' => self.list('[', ']', depth),
            quote @ ('\'' | '"') => self.text(quote),
            '0'..='9' => self.int(),
            _ => self.word(),
        }
    }

    fn list(&mut self, open: char, close: char, depth: usize) -> Option<Literal> {
        self.expect(open)?;
        let mut items = Vec::new();
        while !self.take(close) {
            items.push(self.value(depth)?);
            if !self.take(',') {
                self.expect(close)?;
                break;
            }
        }
        Some(Literal::List(items))
    }

    fn text(&mut self, quote: char) -> Option<Literal> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => text.push(chars.next()?.1),
                _ if c == quote => {
                    self.rest = self.rest.get(at + c.len_utf8()..)?;
                    return Some(Literal::Text(text));
                }
                _ => text.push(c),
            }
        }
        None
    }

    /// Parses an integer; an integer of Python 2 may end in `L`.
    fn int(&mut self) -> Option<Literal> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix('L').unwrap_or(rest);
        digits.parse().ok().map(Literal::Int)
    }

    fn word(&mut self) -> Option<Literal> {
        let words = [("True", true), ("False", false)];
        let (word, value) = words.into_iter().find(|(word, _)| self.rest.starts_with(word))?;
        self.rest = self.rest.get(word.len()..)?;
        Some(Literal::Bool(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read() {
        let text = "{'descr': [('a', '<f4'), ('b\\'', '|u1', (3,))], 'fortran_order': False, 'shape': (3L, 4), }   \n";
        let entries = dictionary(text).unwrap();
        let name = |name: &str| Literal::Text(name.into());
        let fields = vec![
            Literal::List(vec![name("a"), name("<f4")]),
            Literal::List(vec![name("b'"), name("|u1"), Literal::List(vec![Literal::Int(3)])]),
        ];
        assert_eq!(entries[0], ("descr".into(), Literal::List(fields)));
        assert_eq!(entries[1].1, Literal::Bool(false));
        assert_eq!(entries[2].1, Literal::List(vec![Literal::Int(3), Literal::Int(4)]));
    }

    #[test]
    fn other_texts_are_not() {
        let deep = format!("{{'a': {}", "[".repeat(10_000));
        for text in [
            "",
            "{",
            "{'a'",
            "{'a':",
            "{'a': 1",
            "{'a': 1} x",
            "{1: 2}",
            "{'a': -1}",
            "{'a': '",
            "{'a': 1 'b': 2}",
            &deep,
        ] {
            assert_eq!(dictionary(text), None, "{text:.20}");
        }
    }
}
