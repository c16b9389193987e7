//! Handles the protocol's breakpoint requests. Each request replaces all breakpoints of its kind.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::wire::DapRequest;
use crate::debug::breakpoint::{Breakpoint, BreakpointKind, read_element};
use crate::debug::session::DebugSettings;
use clk_base::source::FileId;

/// Returns the absolute path of a source file; `None` if the source is not a file on disk.
pub(super) fn path_of(settings: &DebugSettings, file: FileId) -> Option<PathBuf> {
    let name = settings.session.sources.name(file);
    // Sources named `<…>` and the modules of the standard library are texts in memory.
    if name.starts_with('<') || name.starts_with("std/") && !Path::new(name).exists() {
        return None;
    }
    std::fs::canonicalize(name).ok()
}

fn file_at(settings: &DebugSettings, path: &str) -> Option<FileId> {
    let canonical = std::fs::canonicalize(path).ok()?;
    settings.session.sources.files().map(|(id, _)| id).find(|id| path_of(settings, *id).as_ref() == Some(&canonical))
}

fn items<'v>(request: &'v DapRequest, name: &str) -> &'v [Value] {
    request.arguments.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name)?.as_str().filter(|text| !text.trim().is_empty())
}

fn verified(id: u32) -> Value {
    json!({ "id": id, "verified": true })
}

fn refused(why: &str) -> Value {
    json!({ "verified": false, "message": why })
}

pub(super) fn set_line_breakpoints(request: &DapRequest, settings: &mut DebugSettings) -> Value {
    let source = request.arguments.get("source").cloned().unwrap_or(Value::Null);
    let path = text(&source, "path").unwrap_or_default();
    let Some(file) = file_at(settings, path) else {
        let none = vec![refused("the program has no such file"); items(request, "breakpoints").len()];
        return json!({ "breakpoints": none });
    };
    let name = settings.session.sources.name(file).to_string();
    settings.points.retain(|point| !matches!(&point.kind, BreakpointKind::Line { file, .. } if *file == name));
    let mut answers = vec![];
    for wanted in items(request, "breakpoints") {
        let Some(line) = wanted.get("line").and_then(Value::as_u64).filter(|line| *line > 0) else {
            answers.push(refused("a line is a number, from 1"));
            continue;
        };
        let line = usize::try_from(line).unwrap_or(usize::MAX);
        let statements = settings.source.on_line(&settings.session.sources, file, line);
        answers.push(match statements {
            None => refused("no statement of a kernel or function is on this line or a later one"),
            Some((line, places)) => {
                let mut point = Breakpoint::new(BreakpointKind::Line { file: name.clone(), line, places });
                point.condition = text(wanted, "condition").map(str::to_string);
                let mut answer = verified(settings.add(point));
                answer["line"] = json!(line);
                answer
            }
        });
    }
    json!({ "breakpoints": answers })
}

pub(super) fn set_function_breakpoints(request: &DapRequest, settings: &mut DebugSettings) -> Value {
    settings.points.retain(|point| !matches!(point.kind, BreakpointKind::Item { .. }));
    let mut answers = vec![];
    for wanted in items(request, "breakpoints") {
        let name = text(wanted, "name").unwrap_or_default().to_string();
        if !settings.source.item_names().contains(&name.as_str()) {
            answers.push(refused("the program has no kernel or function of this name"));
            continue;
        }
        let mut point = Breakpoint::new(BreakpointKind::Item { name });
        point.condition = text(wanted, "condition").map(str::to_string);
        answers.push(verified(settings.add(point)));
    }
    json!({ "breakpoints": answers })
}

pub(super) fn set_data_breakpoints(request: &DapRequest, settings: &mut DebugSettings) -> Value {
    settings.points.retain(|point| !matches!(point.kind, BreakpointKind::Write { .. }));
    let mut answers = vec![];
    for wanted in items(request, "breakpoints") {
        answers.push(match read_element(text(wanted, "dataId").unwrap_or_default()) {
            Ok((array, indices)) => {
                let mut point = Breakpoint::new(BreakpointKind::Write { array, indices });
                point.condition = text(wanted, "condition").map(str::to_string);
                verified(settings.add(point))
            }
            Err(error) => refused(&error.title),
        });
    }
    json!({ "breakpoints": answers })
}

/// Sets which exceptions stop the program: faults always do, a NaN only if the client enables the `nan` filter.
pub(super) fn set_exception_filters(request: &DapRequest, settings: &mut DebugSettings) -> Value {
    settings.points.retain(|point| point.kind != BreakpointKind::Nan);
    let filters = items(request, "filters");
    let answer = |filter: &Value, settings: &mut DebugSettings| match filter.as_str() {
        Some("nan") => verified(settings.add(Breakpoint::new(BreakpointKind::Nan))),
        Some("fault") => json!({ "verified": true }),
        _ => refused("there is no such filter"),
    };
    let answers: Vec<Value> = filters.iter().map(|filter| answer(filter, settings)).collect();
    json!({ "breakpoints": answers })
}
