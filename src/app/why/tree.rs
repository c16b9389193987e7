//! Formats a provenance tree, or a part of it, as text.
//!
//! Input: lines with their depths in the tree, beginning at the root. Output: the lines of the requested part. Where
//! children are omitted, the tree shows `… [2]`. When the user requests `[2]`, the same lines are generated again, and
//! those below that mark are shown.

use crate::command_error::CommandResult;
use std::fmt::Write as _;

/// Default number of levels to show, and maximum number of lines.
const LEVELS: usize = 6;
const MOST_LINES: usize = 200;

/// The part of a tree to show: a number of levels below a starting position. The position is given by the numbers in
/// the `… [N]` marks on the path from the root.
#[derive(Clone, Debug)]
pub(crate) struct TreeWindow {
    levels: usize,
    from: Vec<usize>,
}

impl TreeWindow {
    /// Parses a position such as `2.1`, which is the mark `[1]` in the tree that is shown for `[2]`.
    pub fn new(levels: Option<usize>, from: Option<&str>) -> CommandResult<TreeWindow> {
        let number = |text: &str| text.parse().ok().filter(|&number| number > 0);
        let from: Option<Vec<usize>> = from.map_or(Some(vec![]), |from| from.split('.').map(number).collect());
        let expected = "a place in the tree is a number that it shows in brackets, or several: `2.1`";
        Ok(TreeWindow { levels: levels.unwrap_or(LEVELS).max(1), from: from.ok_or(expected)? })
    }
}

pub(crate) struct WhyTree {
    part: TreeWindow,
    /// The remaining numbers on the path to the starting position, in reverse order. No line is shown until the list is
    /// empty.
    ahead: Vec<usize>,
    /// The level from which on lines are omitted.
    limit: usize,
    /// Number of marks since the last number on the path was reached.
    cuts: usize,
    /// The level of the line at the starting position.
    base: usize,
    is_over: bool,
    lines: usize,
    last: String,
    text: String,
}

impl WhyTree {
    pub(super) fn new(part: &TreeWindow) -> WhyTree {
        WhyTree {
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

    /// Whether at least one number on the path to the starting position has been reached.
    fn is_below(&self) -> bool {
        self.ahead.len() < self.part.from.len()
    }

    /// Returns whether the children of the last line, which has this level, are shown. If not, writes the mark `… [N]`
    /// instead.
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

    /// Whether the last line, which has this level, is at a position on the path, so that numbering starts again below
    /// it.
    pub(super) fn begins(&self, level: usize) -> bool {
        self.is_below() && level == self.base && self.cuts == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.lines > MOST_LINES || self.is_over
    }

    pub(super) fn finished(self) -> CommandResult<WhyTree> {
        match self.ahead.last() {
            Some(number) => Err(format!("the tree has no place [{number}] there").into()),
            None => Ok(self),
        }
    }

    /// Returns the text. If children are omitted, adds a line with the command that shows them. `asked` returns that
    /// command for a position.
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

    /// For tests: writes a node with this name, whose descendants down to `depth` have three children each.
    fn tell(tree: &mut WhyTree, name: &str, level: usize, depth: usize) {
        tree.say(level, name);
        if depth > 0 && tree.goes_on(level) {
            (0..3).for_each(|part| tell(tree, &format!("{name}{part}"), level + 1, depth - 1));
        }
    }

    fn build_tree(from: &[usize], levels: usize) -> CommandResult<WhyTree> {
        let from: Vec<String> = from.iter().map(usize::to_string).collect();
        let from = from.join(".");
        let mut tree = WhyTree::new(&TreeWindow::new(Some(levels), (!from.is_empty()).then_some(&from)).unwrap());
        tell(&mut tree, "x", 0, 4);
        tree.finished()
    }

    /// For tests: collects the names of all nodes by requesting the part for every mark.
    fn walked(from: &mut Vec<usize>, levels: usize, names: &mut Vec<String>) {
        let tree = build_tree(from, levels).unwrap();
        let lines = tree.text.lines().map(str::trim).filter(|line| !line.starts_with('…'));
        // The first line of the text for a mark repeats a line that was shown before.
        names.extend(lines.skip(usize::from(!from.is_empty())).map(String::from));
        for number in 1..=tree.cuts {
            from.push(number);
            walked(from, levels, names);
            from.pop();
        }
    }

    #[test]
    fn partial_trees_compose_the_whole_tree() {
        let whole: Vec<String> = build_tree(&[], 4).unwrap().text.lines().map(|line| line.trim().into()).collect();
        assert!(whole.iter().any(|line| line == "… [27]"));
        for levels in 2..6 {
            let mut names = vec![];
            walked(&mut vec![], levels, &mut names);
            names.sort();
            assert_eq!(names.len(), 1 + 3 + 9 + 27 + 81);
            names.dedup();
            assert_eq!(names.len(), 121, "a line was shown twice");
        }
        assert!(build_tree(&[28], 4).is_err());
        assert!(build_tree(&[1, 4], 3).is_err());
        assert!(TreeWindow::new(None, Some("0")).is_err() && TreeWindow::new(None, Some("1..2")).is_err());
    }
}
