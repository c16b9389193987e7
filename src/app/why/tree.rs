//! The text of a tree, of which a part is shown.
//!
//! Input: lines with their levels, from the root on. Output: those of the part that was asked for. Idea: where a part ends, the tree says
//! `… [2]`; asked for what is at `[2]`, the same lines come once more, and are shown from that place on.

use std::fmt::Write as _;

/// Levels that are shown unless more are asked for, and lines at most.
const LEVELS: usize = 6;
const MOST_LINES: usize = 200;

/// Which part of a tree is shown: so many levels below a place, to which the numbers in brackets lead from the root.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    levels: usize,
    from: Vec<usize>,
}

impl Part {
    /// Reads a place, such as `2.1`: below `[2]` of the whole tree, `[1]` of what is shown then.
    pub fn new(levels: Option<usize>, from: Option<&str>) -> Result<Part, String> {
        let number = |text: &str| text.parse().ok().filter(|&number| number > 0);
        let from: Option<Vec<usize>> = from.map_or(Some(vec![]), |from| from.split('.').map(number).collect());
        let wanted = "a place in the tree is a number that it shows in brackets, or several: `2.1`";
        Ok(Part { levels: levels.unwrap_or(LEVELS).max(1), from: from.ok_or(wanted)? })
    }
}

pub(crate) struct Tree {
    part: Part,
    /// The numbers that still lead to the part, from the last one on; none of its lines has come while there are any.
    ahead: Vec<usize>,
    /// The level from which on nothing is shown.
    limit: usize,
    /// How many places have been left out, since the last one of those that lead to the part.
    cuts: usize,
    /// The level of the line that the part is below.
    base: usize,
    is_over: bool,
    lines: usize,
    last: String,
    text: String,
}

impl Tree {
    pub(super) fn new(part: &Part) -> Tree {
        Tree {
            ahead: part.from.iter().rev().copied().collect(),
            limit: part.levels,
            cuts: 0,
            base: 0,
            is_over: false,
            lines: 0,
            last: String::new(),
            text: String::new(),
            part: part.clone(),
        }
    }

    pub(super) fn say(&mut self, level: usize, text: &str) {
        self.is_over |= self.is_below() && level <= self.base;
        if self.is_over {
            return;
        }
        if !self.ahead.is_empty() {
            self.last = text.to_string();
            return;
        }
        if self.lines == MOST_LINES {
            self.text += "… (there is more: ask for fewer levels)\n";
        }
        self.lines += 1;
        if self.lines <= MOST_LINES {
            let _ = writeln!(self.text, "{}{text}", "  ".repeat(level - self.base));
        }
        self.last = text.to_string();
    }

    /// Whether a place has been reached that leads to the part.
    fn is_below(&self) -> bool {
        self.ahead.len() < self.part.from.len()
    }

    /// Returns whether what is below the last line, which has this level, is shown; says that it is left out otherwise.
    pub(super) fn goes_on(&mut self, level: usize) -> bool {
        if self.is_over {
            return false;
        }
        if level + 1 < self.limit {
            return true;
        }
        self.cuts += 1;
        if self.ahead.last() != Some(&self.cuts) {
            self.say(level + 1, &format!("… [{}]", self.cuts));
            return false;
        }
        self.ahead.pop();
        (self.cuts, self.base, self.limit) = (0, level, level + self.part.levels);
        if self.ahead.is_empty() {
            self.text = format!("{}\n", self.last);
        }
        true
    }

    /// Whether a part begins below the last line, of this level.
    pub(super) fn begins(&self, level: usize) -> bool {
        self.is_below() && level == self.base && self.cuts == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.lines > MOST_LINES || self.is_over
    }

    pub(super) fn finished(self) -> Result<Tree, String> {
        match self.ahead.last() {
            Some(number) => Err(format!("the tree has no place [{number}] there")),
            None => Ok(self),
        }
    }

    /// Returns the text, and how to ask for what it leaves out, if it leaves out anything: `asked` of the place.
    pub fn text(&self, asked: impl FnOnce(&str) -> String) -> String {
        if self.cuts == 0 {
            return self.text.clone();
        }
        let from: String = self.part.from.iter().map(|number| format!("{number}.")).collect();
        format!("{}`{}` shows what is at [1]\n", self.text, asked(&format!("{from}1")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells a node with this name, and three below it down to the given depth.
    fn tell(tree: &mut Tree, name: &str, level: usize, depth: usize) {
        tree.say(level, name);
        if depth > 0 && tree.goes_on(level) {
            (0..3).for_each(|part| tell(tree, &format!("{name}{part}"), level + 1, depth - 1));
        }
    }

    fn told(from: &[usize], levels: usize) -> Result<Tree, String> {
        let from: Vec<String> = from.iter().map(usize::to_string).collect();
        let from = from.join(".");
        let mut tree = Tree::new(&Part::new(Some(levels), (!from.is_empty()).then_some(&from)).unwrap());
        tell(&mut tree, "x", 0, 4);
        tree.finished()
    }

    /// Returns the names that are shown by following each number to its end.
    fn walked(from: &mut Vec<usize>, levels: usize, names: &mut Vec<String>) {
        let tree = told(from, levels).unwrap();
        let lines = tree.text.lines().map(str::trim).filter(|line| !line.starts_with('…'));
        // Of a part, the first line has been shown before.
        names.extend(lines.skip(usize::from(!from.is_empty())).map(String::from));
        for number in 1..=tree.cuts {
            from.push(number);
            walked(from, levels, names);
            from.pop();
        }
    }

    #[test]
    fn all_parts_are_the_whole() {
        let whole: Vec<String> = told(&[], 4).unwrap().text.lines().map(|line| line.trim().into()).collect();
        assert!(whole.iter().any(|line| line == "… [27]"));
        for levels in 2..6 {
            let mut names = vec![];
            walked(&mut vec![], levels, &mut names);
            names.sort();
            assert_eq!(names.len(), 1 + 3 + 9 + 27 + 81);
            names.dedup();
            assert_eq!(names.len(), 121, "a line was shown twice");
        }
        assert!(told(&[28], 4).is_err());
        assert!(told(&[1, 4], 3).is_err());
        assert!(Part::new(None, Some("0")).is_err() && Part::new(None, Some("1..2")).is_err());
    }
}
