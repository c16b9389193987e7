//! Formats the debugger's output as text.

use super::breakpoint::coordinates;
use super::frame::{self, NamedContents};
use super::session::{Debug, StopLocation};
use super::stop_search::StopReason;
use clk_base::source::Span;
use clk_ir::def::StmtKind;
use clk_scalar::ops::BarrierKind;
use clk_step::{ArrayRef, BlockState, Thread, ThreadIds, ThreadPhase};

/// Number of elements of an array shown by default.
const FEW: usize = 64;

/// Returns `thread 3 of block 0`, or `index (2, 1)` for a kernel over an index space (`threads`).
pub(crate) fn thread_label(debug: &Debug<'_, '_>, block: u64, thread: u32) -> String {
    label(&debug.ids(block, thread))
}

fn label(ids: &ThreadIds) -> String {
    match ids.index {
        Some((index, rank)) => format!("index {}", tuple(&index[..rank])),
        None => format!("thread {} of block {}", coordinates(&ids.thread), coordinates(&ids.block)),
    }
}

fn tuple(index: &[u32]) -> String {
    match index {
        [one] => one.to_string(),
        all => format!("({})", all.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Returns the location of a span as `file:line`.
pub(crate) fn place(debug: &Debug<'_, '_>, span: Span) -> String {
    let sources = &debug.settings.session.sources;
    let span = sources.original(span);
    format!("{}:{}", sources.name(span.file), sources.line_column(span).0)
}

/// Returns a source line, preceded by its number.
pub(crate) fn line(debug: &Debug<'_, '_>, span: Span, mark: &str) -> String {
    let sources = &debug.settings.session.sources;
    let span = sources.original(span);
    let number = sources.line_column(span).0;
    let text = sources.line_text(span.file, number);
    format!("{mark}{number:5}  {text}\n")
}

/// Describes where the run stopped.
pub(crate) fn arrival(debug: &Debug<'_, '_>) -> String {
    let number = |id: &u32| format!("breakpoint {id}: ");
    let text = match &debug.arrival {
        StopLocation::Start => format!(
            "launch {} of `{}`, at its start ({})\n",
            debug.number,
            debug.kernel(),
            place(debug, debug.launched)
        ),
        StopLocation::Stop(StopReason::Point(id)) => number(id),
        StopLocation::Stop(StopReason::Goal) => String::new(),
        StopLocation::Stop(StopReason::Refused(id, why)) => {
            format!("breakpoint {id}: its condition has no value: {why}\n")
        }
        StopLocation::Stop(StopReason::Write(id, write)) => {
            let indices: Vec<String> = write.indices.iter().map(usize::to_string).collect();
            let written = line(debug, write.span, " ");
            format!(
                "{}{}[{}]{} was {}, and {} has written {}\n{written}",
                number(id),
                write.array,
                indices.join(", "),
                write.part,
                frame::text(write.before),
                thread_label(debug, write.by.block, write.by.thread),
                frame::text(Some(write.value)),
            )
        }
        StopLocation::Stop(StopReason::Nan(id, span, at)) => {
            format!(
                "{}{} has computed NaN\n{}",
                number(id),
                thread_label(debug, at.block, at.thread),
                line(debug, *span, " ")
            )
        }
        StopLocation::Fault(_) => String::new(),
        StopLocation::End => {
            return format!("the launch of `{}` is over, after {} steps\n", debug.kernel(), debug.timeline.position());
        }
        StopLocation::Interrupted => "interrupted\n".into(),
    };
    text + &location_text(debug)
}

/// Describes the location of the focused thread.
pub(crate) fn location_text(debug: &Debug<'_, '_>) -> String {
    if debug.timeline.launch.blocks == 0 {
        return "the launch has no threads\n".into();
    }
    let focus = debug.focus;
    let name = thread_label(debug, focus.block, focus.thread);
    let step = debug.timeline.position();
    match debug.current_span() {
        Some(at) => {
            let waits = debug.thread().map_or(String::new(), |thread| match phase(thread) {
                "runs" => String::new(),
                other => format!(", {other}"),
            });
            format!("{name} at {}, step {step}{waits}\n{}", place(debug, at), line(debug, at, ">"))
        }
        None => format!("{name} has ended, step {step}\n"),
    }
}

/// Describes the state of a thread: running, waiting, ended or faulted.
fn phase(thread: &Thread<'_>) -> &'static str {
    match &thread.phase {
        ThreadPhase::Ready => "runs",
        ThreadPhase::Waiting(at, _) => match &at.kind {
            StmtKind::Barrier { kind: BarrierKind::Grid, .. } => "waits for the grid",
            StmtKind::Barrier { kind: BarrierKind::Warp, .. } | StmtKind::Warp { .. } => "waits for its warp",
            _ => "waits for its block",
        },
        ThreadPhase::Done => "has ended",
        ThreadPhase::Faulted => "has faulted",
    }
}

/// Lists the source around the current statement.
pub(crate) fn list(debug: &Debug<'_, '_>) -> String {
    let Some(at) = debug.current_span() else { return "the thread has ended\n".into() };
    let sources = &debug.settings.session.sources;
    let at = sources.original(at);
    let current = sources.line_column(at).0;
    let lines = sources.text(at.file).lines().enumerate().skip(current.saturating_sub(6)).take(11);
    lines
        .map(|(i, text)| {
            let mark = if i + 1 == current { ">" } else { " " };
            format!("{mark}{:5}  {text}\n", i + 1)
        })
        .collect()
}

/// Lists the call stack of the thread, innermost call first.
pub(crate) fn calls(debug: &Debug<'_, '_>) -> String {
    let Some(thread) = debug.thread() else { return "the block is not in progress\n".into() };
    let mut text =
        format!("{}, step {}\n", thread_label(debug, debug.focus.block, debug.focus.thread), debug.timeline.position());
    for (depth, call) in thread.frames.iter().enumerate().rev() {
        let at = frame::current_span(&debug.settings.source, &debug.table, thread, depth);
        let mark = if depth == debug.focus.depth { ">" } else { " " };
        let name = debug.settings.source.name_of(call.function);
        let at = at.map_or("?".into(), |at| place(debug, at));
        text += &format!("{mark} #{} {name} at {at}\n", thread.frames.len() - 1 - depth);
    }
    text + &format!("  launched at {}\n", place(debug, debug.launched))
}

/// Lists the variables visible to the thread.
pub(crate) fn locals(debug: &Debug<'_, '_>) -> String {
    let names = debug.names();
    if names.is_empty() {
        return "the thread sees no names here\n".into();
    }
    names.iter().map(|(name, held)| format!("{} = {}\n", name.name, contents_text(debug, held))).collect()
}

/// Formats the contents of a variable, with arrays abbreviated.
pub(crate) fn contents_text(debug: &Debug<'_, '_>, held: &NamedContents<'_>) -> String {
    match held {
        NamedContents::Leaves(leaves) => {
            let one = |(path, _, value): &(String, _, Option<_>)| match path.as_str() {
                "" => frame::text(*value),
                path => format!("{path} = {}", frame::text(*value)),
            };
            let shown: Vec<String> = leaves.iter().map(one).collect();
            if leaves.len() == 1 { shown.concat() } else { format!("({})", shown.join(", ")) }
        }
        NamedContents::Array(array) => {
            format!("{}  {}", frame::type_text(array), elements(debug, array, 8).replace('\n', " "))
        }
    }
}

/// Formats the elements of an array, with one line for each slice along the last axis. `?` means that an element was
/// not written.
pub(crate) fn elements(debug: &Debug<'_, '_>, array: &ArrayRef<'_>, most: usize) -> String {
    let (Some(bytes), count) = (debug.bytes(array), frame::count(array)) else { return "?".into() };
    let row = array.extents.last().map_or(1, |&n| (n as usize).max(1));
    let shown: Vec<String> = (0..count.min(most)).map(|at| frame::element(array, bytes, at)).collect();
    let lines: Vec<String> = shown.chunks(row).map(|row| row.join(" ")).collect();
    let rest = if count > most { format!(" … ({count} elements)") } else { String::new() };
    format!("[{}{rest}]", lines.join("\n "))
}

/// Prints an array as `print` does.
pub(crate) fn whole(debug: &Debug<'_, '_>, array: &ArrayRef<'_>) -> String {
    format!("{}\n{}\n", elements(debug, array, FEW), frame::type_text(array))
}

/// Shows the state of each lane of the thread's warp as one letter: running, waiting or ended.
pub(crate) fn mask(debug: &Debug<'_, '_>) -> String {
    let Some(block) = debug.block() else { return "the block is not in progress\n".into() };
    let first = debug.focus.thread / 32 * 32;
    let current = debug.thread().and_then(Thread::next);
    let mut letters = String::new();
    for thread in block.threads.iter().skip(first as usize).take(32) {
        letters.push(match &thread.phase {
            ThreadPhase::Ready if thread.next().zip(current).is_some_and(|(a, b)| std::ptr::eq(a, b)) => '#',
            ThreadPhase::Ready => 'r',
            ThreadPhase::Waiting(..) => 'w',
            ThreadPhase::Done => '.',
            ThreadPhase::Faulted => '!',
        });
    }
    format!(
        "warp {} of block {}: {letters}\n# here, r runs elsewhere, w waits, . has ended, ! has faulted\n",
        first / 32,
        debug.focus.block
    )
}

/// Lists the threads of the block, grouped by state and source line.
pub(crate) fn threads(debug: &Debug<'_, '_>) -> String {
    let Some(block) = debug.block() else { return "the block is not in progress\n".into() };
    let mut groups: Vec<(String, Vec<u32>)> = vec![];
    for (number, thread) in block.threads.iter().enumerate() {
        let status = activity(debug, thread);
        match groups.iter_mut().find(|(known, _)| *known == status) {
            Some((_, numbers)) => numbers.push(number as u32),
            None => groups.push((status, vec![number as u32])),
        }
    }
    let mut text = format!(
        "block {} of {}, step {}\n",
        debug.focus.block,
        debug.timeline.launch.blocks,
        debug.timeline.position()
    );
    for (status, numbers) in groups {
        text += &format!("  {}: {status}\n", ranges(&numbers));
    }
    text
}

fn activity(debug: &Debug<'_, '_>, thread: &Thread<'_>) -> String {
    let at = thread
        .frames
        .len()
        .checked_sub(1)
        .and_then(|d| frame::current_span(&debug.settings.source, &debug.table, thread, d));
    let line = at.map_or(String::new(), |at| format!(" at {}", place(debug, at)));
    format!("{}{line}", phase(thread))
}

/// Formats ascending numbers as ranges: `0-31, 40`.
fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = vec![];
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let part = |&(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    parts.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// Lists the barriers and warp operations at which threads of the block wait, and how many threads have not arrived.
pub(crate) fn barriers(debug: &Debug<'_, '_>) -> String {
    let Some(block) = debug.block() else { return "the block is not in progress\n".into() };
    let mut waits: Vec<(usize, String, Vec<u32>)> = vec![];
    for (number, thread) in block.threads.iter().enumerate() {
        let ThreadPhase::Waiting(at, _) = &thread.phase else { continue };
        let key = std::ptr::from_ref(*at) as usize;
        match waits.iter_mut().find(|(known, ..)| *known == key) {
            Some((.., numbers)) => numbers.push(number as u32),
            None => waits.push((key, activity(debug, thread), vec![number as u32])),
        }
    }
    if waits.is_empty() {
        return "no thread of the block waits\n".into();
    }
    let rest = others(block);
    let one = |(_, what, numbers): &(usize, String, Vec<u32>)| {
        format!("  {} threads ({}): {what}\n", numbers.len(), ranges(numbers))
    };
    waits.iter().map(one).collect::<String>() + &rest
}

fn others(block: &BlockState<'_>) -> String {
    let count = |of: fn(&ThreadPhase<'_>) -> bool| block.threads.iter().filter(|t| of(&t.phase)).count();
    let (runs, ended) = (count(|p| matches!(p, ThreadPhase::Ready)), count(|p| matches!(p, ThreadPhase::Done)));
    format!("  {runs} threads run, {ended} have ended\n")
}
