//! What the debugger shows, as text.

use super::frame::{self, Held};
use super::point::coordinates;
use super::seek::Stop;
use super::session::{Arrival, Debug};
use crate::base::source::Span;
use crate::device::step::{Array, Block, Ids, Phase, Thread};
use crate::ir::def::StmtKind;
use crate::lang::ops::BarrierKind;

/// Elements of an array that are shown unless more are asked for.
const FEW: usize = 64;

/// Returns `thread 3 of block 0`, or `index (2, 1)` of a `threads` kernel.
pub(crate) fn who(debug: &Debug<'_, '_>, block: u64, thread: u32) -> String {
    named(&debug.ids(block, thread))
}

fn named(ids: &Ids) -> String {
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

/// Returns `file:line`.
pub(crate) fn place(debug: &Debug<'_, '_>, span: Span) -> String {
    let sources = &debug.settings.session.sources;
    format!("{}:{}", sources.name(span.file), sources.line_column(span).0)
}

/// Returns a line of the source behind its number.
pub(crate) fn line(debug: &Debug<'_, '_>, span: Span, mark: &str) -> String {
    let sources = &debug.settings.session.sources;
    let number = sources.line_column(span).0;
    let text = sources.text(span.file).lines().nth(number.saturating_sub(1)).unwrap_or("");
    format!("{mark}{number:5}  {text}\n")
}

/// Says where the user has arrived.
pub(crate) fn arrival(debug: &Debug<'_, '_>) -> String {
    let number = |id: &u32| format!("breakpoint {id}: ");
    let text = match &debug.arrival {
        Arrival::Start => format!(
            "launch {} of `{}`, at its start ({})\n",
            debug.number,
            debug.kernel(),
            place(debug, debug.launched)
        ),
        Arrival::Stop(Stop::Point(id)) => number(id),
        Arrival::Stop(Stop::Goal) => String::new(),
        Arrival::Stop(Stop::Refused(id, why)) => format!("breakpoint {id}: its condition has no value: {why}\n"),
        Arrival::Stop(Stop::Write(id, write)) => {
            let indices: Vec<String> = write.indices.iter().map(usize::to_string).collect();
            let written = line(debug, write.span, " ");
            format!(
                "{}{}[{}]{} was {}, and {} has written {}\n{written}",
                number(id),
                write.array,
                indices.join(", "),
                write.part,
                frame::text(write.before),
                who(debug, write.by.block, write.by.thread),
                frame::text(Some(write.value)),
            )
        }
        Arrival::Stop(Stop::Nan(id, span, at)) => {
            format!("{}{} has computed NaN\n{}", number(id), who(debug, at.block, at.thread), line(debug, *span, " "))
        }
        Arrival::Fault(_) => String::new(),
        Arrival::End => {
            return format!("the launch of `{}` is over, after {} steps\n", debug.kernel(), debug.timeline.position());
        }
        Arrival::Interrupted => "interrupted\n".into(),
    };
    text + &spot(debug)
}

/// Says where the thread that is looked at is.
pub(crate) fn spot(debug: &Debug<'_, '_>) -> String {
    if debug.timeline.launch.blocks == 0 {
        return "the launch has no threads\n".into();
    }
    let focus = debug.focus;
    let name = who(debug, focus.block, focus.thread);
    let step = debug.timeline.position();
    match debug.here() {
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

/// Says what a thread does.
fn phase(thread: &Thread<'_>) -> &'static str {
    match &thread.phase {
        Phase::Ready => "runs",
        Phase::Waiting(at, _) => match &at.kind {
            StmtKind::Barrier { kind: BarrierKind::Grid, .. } => "waits for the grid",
            StmtKind::Barrier { kind: BarrierKind::Warp, .. } | StmtKind::Warp { .. } => "waits for its warp",
            _ => "waits for its block",
        },
        Phase::Done => "has ended",
        Phase::Faulted => "has faulted",
    }
}

/// Lists the source around the place that is looked at.
pub(crate) fn list(debug: &Debug<'_, '_>) -> String {
    let Some(at) = debug.here() else { return "the thread has ended\n".into() };
    let sources = &debug.settings.session.sources;
    let here = sources.line_column(at).0;
    let lines = sources.text(at.file).lines().enumerate().skip(here.saturating_sub(6)).take(11);
    lines
        .map(|(i, text)| {
            let mark = if i + 1 == here { ">" } else { " " };
            format!("{mark}{:5}  {text}\n", i + 1)
        })
        .collect()
}

/// Lists the calls of the thread, innermost first.
pub(crate) fn calls(debug: &Debug<'_, '_>) -> String {
    let Some(thread) = debug.thread() else { return "the block is not in progress\n".into() };
    let mut text =
        format!("{}, step {}\n", who(debug, debug.focus.block, debug.focus.thread), debug.timeline.position());
    for (depth, call) in thread.frames.iter().enumerate().rev() {
        let at = frame::here(&debug.settings.source, &debug.table, thread, depth);
        let mark = if depth == debug.focus.depth { ">" } else { " " };
        let name = debug.settings.source.name_of(call.function);
        let at = at.map_or("?".into(), |at| place(debug, at));
        text += &format!("{mark} #{} {name} at {at}\n", thread.frames.len() - 1 - depth);
    }
    text + &format!("  launched at {}\n", place(debug, debug.launched))
}

/// Lists the names that the thread sees.
pub(crate) fn locals(debug: &Debug<'_, '_>) -> String {
    let names = debug.names();
    if names.is_empty() {
        return "the thread sees no names here\n".into();
    }
    names.iter().map(|(name, held)| format!("{} = {}\n", name.name, held_text(debug, held))).collect()
}

/// Formats what a name holds: arrays in short.
pub(crate) fn held_text(debug: &Debug<'_, '_>, held: &Held<'_>) -> String {
    match held {
        Held::Leaves(leaves) => {
            let one = |(path, _, value): &(String, _, Option<_>)| match path.as_str() {
                "" => frame::text(*value),
                path => format!("{path} = {}", frame::text(*value)),
            };
            let shown: Vec<String> = leaves.iter().map(one).collect();
            if leaves.len() == 1 { shown.concat() } else { format!("({})", shown.join(", ")) }
        }
        Held::Array(array) => format!("{}  {}", frame::type_text(array), elements(debug, array, 8).replace('\n', " ")),
    }
}

/// Formats the elements of an array, rows of its last axis in lines; `?` is an element that nobody wrote.
pub(crate) fn elements(debug: &Debug<'_, '_>, array: &Array<'_>, most: usize) -> String {
    let (Some(bytes), count) = (debug.bytes(array), frame::count(array)) else { return "?".into() };
    let row = array.extents.last().map_or(1, |&n| (n as usize).max(1));
    let shown: Vec<String> = (0..count.min(most)).map(|at| frame::element(array, bytes, at)).collect();
    let lines: Vec<String> = shown.chunks(row).map(|row| row.join(" ")).collect();
    let rest = if count > most { format!(" … ({count} elements)") } else { String::new() };
    format!("[{}{rest}]", lines.join("\n "))
}

/// Prints an array as `print` does.
pub(crate) fn whole(debug: &Debug<'_, '_>, array: &Array<'_>) -> String {
    format!("{}\n{}\n", elements(debug, array, FEW), frame::type_text(array))
}

/// Says who of the warp of the thread runs, waits, or has ended; one letter for each lane.
pub(crate) fn mask(debug: &Debug<'_, '_>) -> String {
    let Some(block) = debug.block() else { return "the block is not in progress\n".into() };
    let first = debug.focus.thread / 32 * 32;
    let here = debug.thread().and_then(Thread::next);
    let mut letters = String::new();
    for thread in block.threads.iter().skip(first as usize).take(32) {
        letters.push(match &thread.phase {
            Phase::Ready if thread.next().zip(here).is_some_and(|(a, b)| std::ptr::eq(a, b)) => '#',
            Phase::Ready => 'r',
            Phase::Waiting(..) => 'w',
            Phase::Done => '.',
            Phase::Faulted => '!',
        });
    }
    format!(
        "warp {} of block {}: {letters}\n# here, r runs elsewhere, w waits, . has ended, ! has faulted\n",
        first / 32,
        debug.focus.block
    )
}

/// Lists the threads of the block: those that do the same at the same line in one line.
pub(crate) fn threads(debug: &Debug<'_, '_>) -> String {
    let Some(block) = debug.block() else { return "the block is not in progress\n".into() };
    let mut groups: Vec<(String, Vec<u32>)> = vec![];
    for (number, thread) in block.threads.iter().enumerate() {
        let what = activity(debug, thread);
        match groups.iter_mut().find(|(known, _)| *known == what) {
            Some((_, numbers)) => numbers.push(number as u32),
            None => groups.push((what, vec![number as u32])),
        }
    }
    let mut text = format!(
        "block {} of {}, step {}\n",
        debug.focus.block,
        debug.timeline.launch.blocks,
        debug.timeline.position()
    );
    for (what, numbers) in groups {
        text += &format!("  {}: {what}\n", ranges(&numbers));
    }
    text
}

fn activity(debug: &Debug<'_, '_>, thread: &Thread<'_>) -> String {
    let at =
        thread.frames.len().checked_sub(1).and_then(|d| frame::here(&debug.settings.source, &debug.table, thread, d));
    let line = at.map_or(String::new(), |at| format!(" at {}", place(debug, at)));
    format!("{}{line}", phase(thread))
}

/// Formats ascending numbers: `0-31, 40`.
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

/// Says at which barriers and warp operations threads of the block wait, and for how many.
pub(crate) fn barriers(debug: &Debug<'_, '_>) -> String {
    let Some(block) = debug.block() else { return "the block is not in progress\n".into() };
    let mut waits: Vec<(usize, String, Vec<u32>)> = vec![];
    for (number, thread) in block.threads.iter().enumerate() {
        let Phase::Waiting(at, _) = &thread.phase else { continue };
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

fn others(block: &Block<'_>) -> String {
    let count = |of: fn(&Phase<'_>) -> bool| block.threads.iter().filter(|t| of(&t.phase)).count();
    let (runs, ended) = (count(|p| matches!(p, Phase::Ready)), count(|p| matches!(p, Phase::Done)));
    format!("  {runs} threads run, {ended} have ended\n")
}
