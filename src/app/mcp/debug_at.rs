//! The tool `debug_at`: runs a script under the debugger to a line, and reads the state of the thread that stops there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::limits::LaunchCount;
use super::tool_call::ToolCall;
use crate::command_error::CommandResult;
use crate::context::AppContext;
use crate::cuda_launches::CudaLaunchOptions;
use crate::debug::breakpoint::Breakpoint;
use crate::debug::commands;
use crate::debug::device::{DebugContinuation, DebuggerFrontEnd};
use crate::debug::frame::NamedContents;
use crate::debug::session::{Debug, DebugSettings, SearchDirection, StopLocation};
use crate::debug::show;
use crate::debug::stop_search::{Goal, StopReason};
use crate::debug::{self, DebugTarget};
use crate::effects::CapturedEffects;
use crate::{exit, script};
use clk_base::render;

/// Maximum number of elements of an array to show.
const MAX_ELEMENTS: usize = 64;

/// Runs the tool; returns the exit code.
pub(super) fn run(call: &ToolCall<'_>, context: &mut AppContext) -> u8 {
    let ToolCall { arguments, path, launches } = *call;
    let Some(mut compiled) = script::compile_file(path, &mut context.console) else {
        context.console.summary();
        return exit::FAILURE;
    };
    let target = match compiled.is_cuda() {
        true => DebugTarget::of_cuda(&mut compiled, &CudaLaunchOptions::default(), context),
        false => DebugTarget::of(&compiled, path, arguments.text("test")),
    };
    let target = match target {
        Ok(target) => target,
        Err(why) => return context.show(Err(why)),
    };
    let search = Arc::new(Mutex::new(LineSearch::new(arguments)));
    let mut printed = CapturedEffects::default();
    let mut faults = vec![];
    let front = LineFrontEnd { search: search.clone(), launches: launches.clone() };
    let script_args = arguments.texts("args");
    debug::runs(&compiled, &target, &script_args, context, Box::new(front), &mut printed, &mut |fault| {
        faults.push(fault.clone());
    });
    context.console.print(&printed.printed);
    context.console.report_all(&faults, &compiled.session.sources);
    let mut search = search.lock().unwrap_or_else(PoisonError::into_inner);
    search.notes.drain(..).for_each(|note| context.console.error_line(&note));
    match (search.stop.take(), search.refused.take()) {
        (Some(stop), _) => {
            context.console.results("stop", || vec![stop.data], |_| stop.text);
            exit::OK
        }
        (None, Some(why)) => context.show(Err(why)),
        (None, None) => {
            let hits = search.hits;
            let times = if hits == 0 { String::new() } else { format!(" more than {hits} times") };
            context.console.error_line(&format!("error: no thread stopped at this line{times}"));
            // The script chooses its exit code, which does not mean that the arguments are invalid.
            exit::FAILURE
        }
    }
}

/// A search for the state at a line, and its outcome.
struct LineSearch {
    line: u64,
    file: Option<String>,
    condition: Option<String>,
    thread: Option<Vec<u32>>,
    block: Option<Vec<u32>>,
    expressions: Vec<String>,
    /// The number of the occurrence to stop at, counted from 1.
    hit: u64,
    /// Number of occurrences so far.
    hits: u64,
    has_begun: bool,
    stop: Option<FoundStop>,
    /// Why the search is impossible.
    refused: Option<crate::command_error::CommandError>,
    notes: Vec<String>,
}

/// The state at a stop.
struct FoundStop {
    data: Value,
    text: String,
}

impl LineSearch {
    fn new(arguments: &Arguments) -> LineSearch {
        LineSearch {
            line: arguments.whole("line").unwrap_or(1),
            file: arguments.owned_text("file"),
            condition: arguments.owned_text("condition"),
            thread: arguments.coordinates("thread"),
            block: arguments.coordinates("block"),
            expressions: arguments.texts("expressions"),
            hit: arguments.whole("hit").unwrap_or(1),
            hits: 0,
            has_begun: false,
            stop: None,
            refused: None,
            notes: vec![],
        }
    }

    fn breakpoint(&self, settings: &DebugSettings) -> CommandResult<Breakpoint> {
        let word = match &self.file {
            Some(file) => format!("{file}:{}", self.line),
            None => self.line.to_string(),
        };
        let mut point = Breakpoint::new(commands::on_line(&word, settings)?);
        point.condition.clone_from(&self.condition);
        point.thread.clone_from(&self.thread);
        point.block.clone_from(&self.block);
        Ok(point)
    }
}

/// The front end that runs the script once, to the stop.
struct LineFrontEnd {
    search: Arc<Mutex<LineSearch>>,
    launches: Arc<LaunchCount>,
}

impl LineFrontEnd {
    fn search(&self) -> MutexGuard<'_, LineSearch> {
        self.search.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DebuggerFrontEnd for LineFrontEnd {
    fn between(&mut self, settings: &mut DebugSettings) -> bool {
        let mut search = self.search();
        if std::mem::replace(&mut search.has_begun, true) {
            return false;
        }
        match search.breakpoint(settings) {
            Ok(point) => {
                settings.add(point);
                true
            }
            Err(why) => {
                search.refused = Some(why);
                false
            }
        }
    }

    fn launch(&mut self, debug: &mut Debug<'_, '_>) -> DebugContinuation {
        if debug.arrival == StopLocation::Start {
            debug.go(SearchDirection::Forward, Goal::Nothing);
        }
        let mut search = self.search();
        loop {
            match &debug.arrival {
                StopLocation::End => return DebugContinuation::GoOn,
                StopLocation::Interrupted => return DebugContinuation::Quit,
                StopLocation::Stop(StopReason::Refused(_, why)) => {
                    search.refused = Some(format!("error: the condition has no value: {why}").into());
                    return DebugContinuation::Quit;
                }
                StopLocation::Fault(_) => break,
                StopLocation::Start | StopLocation::Stop(_) => {
                    search.hits += 1;
                    if search.hits >= search.hit {
                        break;
                    }
                    debug.go(SearchDirection::Forward, Goal::Nothing);
                }
            }
        }
        search.stop = Some(found_stop(debug, &search.expressions));
        DebugContinuation::Quit
    }

    fn permits_launch(&mut self) -> bool {
        self.launches.count()
    }

    fn note(&mut self, text: &str) {
        self.search().notes.push(format!("note: {text}"));
    }

    fn restarts(&self) -> bool {
        false
    }
}

/// Reads the state of the focused thread and of its block.
fn found_stop(debug: &mut Debug<'_, '_>, expressions: &[String]) -> FoundStop {
    let values: Vec<(String, CommandResult)> =
        expressions.iter().map(|expression| (expression.clone(), value(debug, expression))).collect();
    let sources = &debug.settings.session.sources;
    let fault = match &debug.arrival {
        StopLocation::Fault(fault) => {
            serde_json::from_str(&render::json(&debug.explain(fault), sources)).unwrap_or(Value::Null)
        }
        _ => Value::Null,
    };
    let (file, line) = match debug.current_span().map(|at| sources.original(at)) {
        Some(at) => (json!(sources.name(at.file)), json!(sources.line_column(at).0)),
        None => (Value::Null, Value::Null),
    };
    let variables: Vec<Value> = debug
        .names()
        .iter()
        .map(|(name, contents)| {
            let is_array = matches!(contents, NamedContents::Array(_));
            json!({ "name": name.name, "value": show::contents_text(debug, contents), "is_array": is_array })
        })
        .collect();
    let shown = |(expression, value): &(String, CommandResult)| match value {
        Ok(value) => json!({ "expression": expression, "value": value }),
        Err(why) => json!({ "expression": expression, "error": why.to_string() }),
    };
    let (stack, threads, barriers) = (show::calls(debug), show::threads(debug), show::barriers(debug));
    let data = json!({
        "kernel": debug.kernel(),
        "launch": debug.number,
        "step": debug.timeline.position(),
        "thread": show::thread_label(debug, debug.focus.block, debug.focus.thread),
        "file": file,
        "line": line,
        "fault": fault,
        "stack": stack,
        "variables": variables,
        "expressions": values.iter().map(shown).collect::<Vec<_>>(),
        "threads": threads,
        "barriers": barriers,
    });
    let mut text = commands::arrival_text(debug);
    text += &format!("\n{stack}\nvariables:\n{}", show::locals(debug));
    for (expression, value) in &values {
        let value = value.as_ref().map_or_else(|why| format!("no value: {why}"), String::clone);
        text += &format!("{expression} = {value}\n");
    }
    text += &format!("\nthreads of {threads}{barriers}");
    FoundStop { data, text }
}

/// Evaluates an expression in the focused thread. The name of a variable shows its contents.
fn value(debug: &mut Debug<'_, '_>, expression: &str) -> CommandResult {
    if let Some(array) = debug.array(expression) {
        return Ok(show::elements(debug, &array, MAX_ELEMENTS));
    }
    let names = debug.names();
    if let Some((_, contents)) = names.iter().find(|(name, _)| name.name == expression) {
        return Ok(show::contents_text(debug, contents));
    }
    drop(names);
    debug.value(expression)
}
