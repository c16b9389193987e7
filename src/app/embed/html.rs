//! Formats values as HTML for notebooks. An array becomes a table with its shape and type; a large array shows only the
//! first and the last elements of each axis.

use std::fmt::Write as _;

use clk_host::array::{Array, ElementType};
use clk_host::format::column::Cells;
use clk_host::format::describe;
use clk_host::problem::HostResult;
use clk_host::value::HostValue;

/// Number of elements shown at the beginning and at the end of a long axis.
const EDGE: usize = 5;
const PLANES: usize = 3;

/// Returns a value as HTML; `None` if its plain text is better suited.
pub(crate) fn of(value: &HostValue) -> HostResult<Option<String>> {
    match value {
        HostValue::Array(array) => of_array(array).map(Some),
        HostValue::Table(columns) if columns.unreadable.is_empty() => {
            let mut rows = 0;
            let mut cells = Vec::new();
            for column in columns.values() {
                let texts = column_texts(column)?;
                rows = rows.max(texts.len());
                cells.push(texts);
            }
            let heads: Vec<String> = columns.keys().map(|name| escape_html(name)).collect();
            Ok(Some(table_of_columns(&heads, &cells, rows)))
        }
        _ => Ok(None),
    }
}

/// Escapes the characters that are special in HTML.
pub(crate) fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the indices along an axis that are shown. `None` marks a gap.
fn shown_positions(extent: usize) -> Vec<Option<usize>> {
    match extent <= 2 * EDGE + 1 {
        true => (0..extent).map(Some).collect(),
        false => (0..EDGE).map(Some).chain([None]).chain((extent - EDGE..extent).map(Some)).collect(),
    }
}

fn of_array(array: &Array) -> HostResult<String> {
    let mut html = String::from("<div class=\"clk-array\">");
    let shape = array.shape();
    if !array.is_empty() {
        let (outer, inner) = shape.split_at(shape.len().saturating_sub(2));
        let planes: usize = outer.iter().product();
        let size: usize = inner.iter().product();
        for plane in 0..planes.min(PLANES) {
            if !outer.is_empty() {
                let _ = write!(html, "<p><code>[{}, .., ..]</code></p>", indices(plane, outer));
            }
            html += &of_plane(array, inner, plane * size)?;
        }
        if planes > PLANES {
            let _ = write!(html, "<p>… and {} more</p>", planes - PLANES);
        }
    }
    let _ = write!(html, "<p><code>{}</code></p></div>", escape_html(&describe(array)));
    Ok(html)
}

/// Converts a row-major index to the indices of the leading axes, separated by commas.
fn indices(mut position: usize, shape: &[usize]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for extent in shape.iter().rev() {
        parts.insert(0, (position % extent).to_string());
        position /= extent;
    }
    parts.join(", ")
}

/// Returns a table of the last one or two axes. `first` is the row-major index of the table's first element.
fn of_plane(array: &Array, shape: &[usize], first: usize) -> HostResult<String> {
    let (rows, columns) = match *shape {
        [rows, columns] => (rows, columns),
        [columns] => (1, columns),
        _ => (1, 1),
    };
    let (row_steps, column_steps) = (shown_positions(rows), shown_positions(columns));
    let positions = row_steps
        .iter()
        .flatten()
        .flat_map(|row| column_steps.iter().flatten().map(move |column| first + row * columns + column));
    let shown = array.items_at(positions).collect::<HostResult<Vec<HostValue>>>()?;
    let mut texts = Cells::new(array.element(), &shown).texts().into_iter();
    let mut html = String::from("<table><tbody>");
    for row in &row_steps {
        html += "<tr>";
        if shape.len() == 2 {
            let _ = write!(html, "<th>{}</th>", row.map_or("⋮".into(), |row| row.to_string()));
        }
        for column in &column_steps {
            let cell = match (row, column) {
                (Some(_), Some(_)) => escape_html(texts.next().unwrap_or_default().trim()),
                (Some(_), None) => "…".into(),
                (None, _) => "⋮".into(),
            };
            let _ = write!(html, "<td>{cell}</td>");
        }
        html += "</tr>";
    }
    Ok(html + "</tbody></table>")
}

fn column_texts(column: &HostValue) -> HostResult<Vec<String>> {
    Ok(match column {
        HostValue::Array(array) => {
            let shown = array.items_at(0..array.count().min(2 * EDGE)).collect::<HostResult<Vec<HostValue>>>()?;
            let element: &ElementType = array.element();
            Cells::new(element, &shown).texts().into_iter().map(|text| escape_html(text.trim())).collect()
        }
        HostValue::Strings(texts) => texts.iter().take(2 * EDGE).map(|text| escape_html(text)).collect(),
        _ => vec![],
    })
}

fn table_of_columns(heads: &[String], cells: &[Vec<String>], rows: usize) -> String {
    let row = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
        let cells: String = cells.map(|cell| format!("<{tag}>{cell}</{tag}>")).collect();
        format!("<tr>{cells}</tr>")
    };
    let body: String = (0..rows)
        .map(|at| row("td", &mut cells.iter().map(|column| column.get(at).map_or("", String::as_str))))
        .collect();
    format!("<table><thead>{}</thead><tbody>{body}</tbody></table>", row("th", &mut heads.iter().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_tables_with_their_type() {
        let small = Array::from_shaped(&[1i32, 2, 3, 4], &[2, 2]).expect("an array");
        let html = of_array(&small).expect("readable");
        assert!(html.contains("<tr><th>1</th><td>3</td><td>4</td></tr>") && html.contains("[i32; 2, 2]"), "{html}");
        let long = Array::from_items(&[7.5f32; 100]).expect("an array");
        let html = of_array(&long).expect("readable");
        assert_eq!((html.matches("<td>7.5").count(), html.matches("<td>…").count()), (2 * EDGE, 1), "{html}");
        let cube = Array::from_shaped(&[0u8; 24], &[2, 3, 4]).expect("an array");
        let html = of_array(&cube).expect("readable");
        assert_eq!((html.matches("<table>").count(), html.contains("[1, .., ..]")), (2, true));
        assert!(of_array(&Array::from_items::<f32>(&[]).expect("none")).expect("readable").contains("[f32; 0]"));
    }

    #[test]
    fn html_special_characters_are_escaped() {
        assert_eq!(escape_html("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
