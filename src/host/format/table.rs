//! Formats tables as text: aligned columns with their names and types, as many as fit in a line. A table with many rows
//! shows only the first and last ones. If its values are not 1-d arrays of the same length, the table is shown as a
//! list of names and types.

use smol_str::SmolStr;

use crate::problem::HostResult;
use crate::value::{HostValue, TableValue};
use clk_base::escape;

/// A table with more rows than this shows only the first and last ones.
const MOST_ROWS: usize = 20;
/// Number of first rows, and of last rows, that such a table shows.
const EDGE: usize = 5;
/// Maximum width of a name or text in columns; longer ones are truncated.
const WIDEST: usize = 30;
const GAP: &str = "...";
const BETWEEN: &str = "  ";

/// Formats one element of a column.
type CellPrinter = fn(&HostValue) -> HostResult<String>;

/// Returns the output of `print` for a table, in lines of `width` columns.
pub(crate) fn print(table: &TableValue, width: usize, item: CellPrinter) -> HostResult<String> {
    let mut text = match rows(table) {
        Some(rows) => grid(table, rows, width, item)?,
        None => {
            let line =
                |(name, column): (&SmolStr, &HostValue)| format!("{}: {}", escape::name(name), column.type_name());
            table.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    };
    for name in table.unreadable.keys() {
        text += &format!("\n{}: unreadable", short(name));
    }
    Ok(text)
}

/// Returns the number of rows, if all values are columns of the same length.
fn rows(table: &TableValue) -> Option<usize> {
    let mut lengths = table.values().map(|column| match column {
        HostValue::Strings(texts) => Some(texts.len()),
        HostValue::Array(array) if array.rank() == 1 && array.element().scalar().is_some() => Some(array.count()),
        _ => None,
    });
    let first = lengths.next()??;
    lengths.all(|length| length == Some(first)).then_some(first)
}

fn grid(table: &TableValue, rows: usize, width: usize, item: CellPrinter) -> HostResult<String> {
    let shown: Vec<usize> = match rows > MOST_ROWS {
        false => (0..rows).collect(),
        true => (0..EDGE).chain(rows - EDGE..rows).collect(),
    };
    let mut lines = vec![String::new(); shown.len() + 2 + usize::from(shown.len() < rows)];
    let mut left_out = Vec::new();
    for (name, column) in table.iter() {
        let cells = cells(name, column, &shown, rows, item)?;
        let wide = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        let used = lines[0].chars().count();
        let before = if used == 0 { "" } else { BETWEEN };
        if !left_out.is_empty() || used > 0 && used + before.len() + wide > width {
            left_out.push(name);
            continue;
        }
        let is_text = matches!(column, HostValue::Strings(_));
        for (line, cell) in lines.iter_mut().zip(cells) {
            let cell = if is_text { format!("{cell:<wide$}") } else { format!("{cell:>wide$}") };
            *line += &format!("{before}{cell}");
        }
    }
    let mut lines: Vec<String> = lines.into_iter().map(|line| line.trim_end().to_string()).collect();
    if shown.len() < rows {
        lines.push(format!("{rows} rows"));
    }
    if let [first, ..] = left_out[..] {
        let last =
            if left_out.len() > 1 { format!(" to {}", short(left_out[left_out.len() - 1])) } else { String::new() };
        let count =
            if left_out.len() == 1 { "1 more column".into() } else { format!("{} more columns", left_out.len()) };
        lines.push(format!("and {count}: {}{last}", short(first)));
    }
    Ok(lines.join("\n"))
}

/// Returns the cells of a column: its name, its type, and the shown elements.
fn cells(name: &str, column: &HostValue, shown: &[usize], rows: usize, item: CellPrinter) -> HostResult<Vec<String>> {
    let (ty, mut texts) = match column {
        HostValue::Array(array) => {
            let items = array.items_at(shown.iter().copied()).map(|value| item(&value?));
            (array.element().to_string(), items.collect::<HostResult<Vec<String>>>()?)
        }
        HostValue::Strings(texts) => ("str".to_string(), shown.iter().map(|&row| short(&texts[row])).collect()),
        _ => (String::new(), Vec::new()),
    };
    if shown.len() < rows {
        texts.insert(EDGE, GAP.to_string());
    }
    Ok([short(name), ty].into_iter().chain(texts).collect())
}

/// Returns a text on one line, truncated if it is long.
fn short(text: &str) -> String {
    let shown: String = text.chars().take(WIDEST + 1).collect();
    let spelled = escape::name(&shown);
    match spelled.chars().count() > WIDEST {
        true => spelled.chars().take(WIDEST - GAP.len()).collect::<String>() + GAP,
        false => spelled.into_owned(),
    }
}
