//! The commands of the debugger in a terminal.

use super::breakpoint::{Breakpoint, BreakpointKind, read_coordinates, read_element, read_filters};
use super::command_table;
use super::frame;
use super::session::{Debug, DebugSettings, SearchDirection, StopLocation};
use super::show;
use super::stop_search::{Goal, StopReason};
use crate::command_error::CommandResult;
use clk_base::source::FileId;
use clk_host::array::{Array, ElementType};
use clk_host::picture::chart::{self, ChartKind, ChartOptions};
use clk_host::picture::shown::ShownPicture;
use clk_host::value::HostValue;

/// What a command produces or requests.
pub(crate) enum CommandOutcome {
    Text(String),
    /// A picture of an array, to be displayed.
    Picture(Box<ShownPicture>),
    /// Continue the script until the next stop.
    GoOn,
    /// Restart the script.
    Run,
    Quit,
}

/// Maximum number of elements in a picture.
const MOST_PIXELS: usize = 1 << 24;

/// Performs a command that needs no stopped launch; returns `None` for all other commands.
pub(crate) fn run_outside_launch(
    name: &str,
    rest: &str,
    settings: &mut DebugSettings,
) -> Option<CommandResult<CommandOutcome>> {
    let text = |text: String| Ok(CommandOutcome::Text(text));
    Some(match name {
        "break" => add(rest, settings, false),
        "tbreak" => add(rest, settings, true),
        "watch" => watch(rest, settings),
        "delete" => delete(rest, settings).and_then(text),
        "disable" => enable(rest, settings, false).and_then(text),
        "enable" => enable(rest, settings, true).and_then(text),
        "info" if "break".starts_with(rest) && !rest.is_empty() => text(points(settings)),
        "help" => text(command_table::help(rest)),
        "quit" => Ok(CommandOutcome::Quit),
        _ => return None,
    })
}

fn points(settings: &DebugSettings) -> String {
    if settings.points.is_empty() {
        return "no breakpoints\n".into();
    }
    let one = |point: &Breakpoint| {
        let state = if point.enabled { "" } else { " (disabled)" };
        format!("{}: {point}, stopped {} times{state}\n", point.id, point.hits)
    };
    settings.points.iter().map(one).collect()
}

fn number(rest: &str) -> CommandResult<u32> {
    rest.trim().parse().map_err(|_| format!("`{rest}` is not the number of a breakpoint").into())
}

fn delete(rest: &str, settings: &mut DebugSettings) -> CommandResult {
    if rest.is_empty() {
        settings.points.clear();
        return Ok("no breakpoints\n".into());
    }
    let id = number(rest)?;
    let before = settings.points.len();
    settings.points.retain(|point| point.id != id);
    if settings.points.len() < before { Ok(String::new()) } else { Err(format!("there is no breakpoint {id}").into()) }
}

fn enable(rest: &str, settings: &mut DebugSettings, enabled: bool) -> CommandResult {
    let id = number(rest)?;
    let point = settings.points.iter_mut().find(|point| point.id == id);
    point.ok_or(format!("there is no breakpoint {id}"))?.enabled = enabled;
    Ok(String::new())
}

/// Adds the breakpoint described by `rest`: `12 if x > 0.0`, `lib.clk:12`, `blur thread 3`, `nan`.
fn add(rest: &str, settings: &mut DebugSettings, once: bool) -> CommandResult<CommandOutcome> {
    let (word, filters) = rest.split_once(' ').unwrap_or((rest, ""));
    let mut point = match word {
        "" => return Err("where? say a line, a kernel or function, or `nan`".into()),
        "thread" | "block" | "if" => Breakpoint::new(BreakpointKind::Anywhere),
        "nan" => Breakpoint::new(BreakpointKind::Nan),
        word if word.ends_with(|c: char| c.is_ascii_digit())
            && word.starts_with(|c: char| c.is_ascii_digit() || word.contains(':')) =>
        {
            Breakpoint::new(on_line(word, settings)?)
        }
        word => Breakpoint::new(item(word, settings)?),
    };
    let filters = if point.kind == BreakpointKind::Anywhere { rest } else { filters };
    read_filters(filters, &mut point)?;
    point.is_temporary = once;
    let shown = point.to_string();
    let id = settings.add(point);
    Ok(CommandOutcome::Text(format!("breakpoint {id}: {shown}\n")))
}

/// Returns the statements on a line of the script (`12`) or of a file (`lib.clk:12`).
pub(crate) fn on_line(word: &str, settings: &DebugSettings) -> CommandResult<BreakpointKind> {
    let (file, line) = match word.rsplit_once(':') {
        Some((file, line)) => (Some(file), line),
        None => (None, word),
    };
    let line: usize = line.parse().map_err(|_| format!("`{line}` is not a line"))?;
    let sources = &settings.session.sources;
    let file: FileId = match file {
        None => settings.main_file().ok_or("there is no script")?,
        Some(file) => {
            let is_it = |name: &str| name == file || name.ends_with(&format!("/{file}"));
            let matching = sources.files().filter(|(_, source)| is_it(&source.name)).map(|(id, _)| id).last();
            matching.ok_or_else(|| format!("there is no file `{file}` in the program"))?
        }
    };
    let matching = settings.source.on_line(sources, file, line);
    let (line, places) =
        matching.ok_or_else(|| format!("no statement of a kernel or function is on line {line} or a later one"))?;
    Ok(BreakpointKind::Line { file: sources.name(file).to_string(), line, places })
}

fn item(word: &str, settings: &DebugSettings) -> CommandResult<BreakpointKind> {
    let names = settings.source.item_names();
    if names.contains(&word) {
        return Ok(BreakpointKind::Item { name: word.to_string() });
    }
    let near = names.iter().max_by(|a, b| strsim::jaro(a, word).total_cmp(&strsim::jaro(b, word)));
    let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    Err(format!("`{word}` is not a line, kernel or function{near}").into())
}

fn watch(rest: &str, settings: &mut DebugSettings) -> CommandResult<CommandOutcome> {
    let end = rest.find(']').map_or(rest.len(), |at| at + 1);
    let (array, indices) = read_element(&rest[..end])?;
    let mut point = Breakpoint::new(BreakpointKind::Write { array, indices });
    read_filters(&rest[end..], &mut point)?;
    let shown = point.to_string();
    let id = settings.add(point);
    Ok(CommandOutcome::Text(format!("breakpoint {id}: {shown}\n")))
}

/// Performs a command while a launch is stopped.
pub(crate) fn run_in_launch(name: &str, rest: &str, debug: &mut Debug<'_, '_>) -> CommandResult<CommandOutcome> {
    if let Some(answer) = run_outside_launch(name, rest, debug.settings) {
        return answer;
    }
    let text = |text: String| Ok(CommandOutcome::Text(text));
    match name {
        "run" => Ok(CommandOutcome::Run),
        "launch" => {
            debug.settings.stop_at_launch = true;
            Ok(CommandOutcome::GoOn)
        }
        "continue" | "reverse-continue" | "step" | "reverse-step" | "next" | "reverse-next" | "finish"
        | "reverse-finish" => moved(name, rest, debug),
        "goto" => goto(rest, debug),
        "print" => print(rest, debug).and_then(text),
        "print-all" => print_all(rest, debug).and_then(text),
        "heat" => picture(rest, debug, |array| ShownPicture::heat(array, None)),
        "plot" => curve(rest, debug),
        "info" => info(rest, debug).and_then(text),
        "mask" => text(show::mask(debug)),
        "thread" => thread(rest, debug).and_then(text),
        "block" => block(rest, debug).and_then(text),
        "where" => text(show::calls(debug)),
        "up" | "down" => frame_by(name == "up", debug).and_then(text),
        "list" => text(show::list(debug)),
        other => Err(format!("`{other}` is not for a launch").into()),
    }
}

fn moved(name: &str, rest: &str, debug: &mut Debug<'_, '_>) -> CommandResult<CommandOutcome> {
    let (way, verb) = match name.strip_prefix("reverse-") {
        Some(verb) => (SearchDirection::Backward, verb),
        None => (SearchDirection::Forward, name),
    };
    let count: u64 = if rest.is_empty() { 1 } else { rest.parse().map_err(|_| format!("`{rest}` is not a count"))? };
    if way == SearchDirection::Forward && debug.timeline.is_at_end() {
        // The launch has ended, so there is nothing left to examine.
        return Ok(CommandOutcome::GoOn);
    }
    for _ in 0..count {
        match verb {
            "continue" => debug.go(way, Goal::Nothing),
            "step" => debug.step(way),
            "next" => debug.next(way),
            _ => debug.finish(way),
        }
        if debug.arrival != StopLocation::Stop(StopReason::Goal) {
            break;
        }
    }
    if way == SearchDirection::Forward && debug.arrival == StopLocation::End && verb == "continue" {
        return Ok(CommandOutcome::GoOn);
    }
    remove_temporary(debug);
    Ok(CommandOutcome::Text(arrival_text(debug)))
}

/// Removes a temporary breakpoint that has stopped the run.
pub(crate) fn remove_temporary(debug: &mut Debug<'_, '_>) {
    if let StopLocation::Stop(StopReason::Point(id)) = debug.arrival {
        debug.settings.points.retain(|point| point.id != id || !point.is_temporary);
    }
}

/// Describes where the run stopped. For a fault, includes its diagnostic.
pub(crate) fn arrival_text(debug: &Debug<'_, '_>) -> String {
    let mut text = String::new();
    if let StopLocation::Fault(fault) = &debug.arrival {
        let diagnostic = debug.explain(fault);
        let style = clk_base::render::RenderStyle { color: false, ascii: false, width: 100 };
        text = clk_base::render::text(&diagnostic, &debug.settings.session.sources, style) + "\n";
    }
    text + &show::arrival(debug)
}

fn goto(rest: &str, debug: &mut Debug<'_, '_>) -> CommandResult<CommandOutcome> {
    match rest {
        "start" => debug.go_to(0),
        "end" => debug.go_to(u64::MAX),
        _ => match rest.strip_prefix("block") {
            Some(number) => {
                let (at, _) = read_coordinates(number)?;
                let number = block_number(&at, debug)?;
                debug.go_to_block(number);
            }
            None => {
                let position = rest
                    .parse()
                    .map_err(|_| format!("`{rest}` is not a step; enter a number, `start`, `end` or `block N`"))?;
                debug.go_to(position);
            }
        },
    }
    Ok(CommandOutcome::Text(arrival_text(debug)))
}

fn print(rest: &str, debug: &mut Debug<'_, '_>) -> CommandResult {
    if rest.is_empty() {
        return Err("print what?".into());
    }
    if let Some(array) = debug.array(rest) {
        return Ok(show::whole(debug, &array));
    }
    let struct_ = debug.names().into_iter().find(|(name, _)| name.name == rest);
    if let Some((_, held)) = struct_ {
        return Ok(show::contents_text(debug, &held) + "\n");
    }
    Ok(debug.value(rest)? + "\n")
}

fn print_all(rest: &str, debug: &mut Debug<'_, '_>) -> CommandResult {
    if rest.is_empty() {
        return Err("print what?".into());
    }
    let focus = debug.focus;
    let count = debug.block().ok_or("the block is not in progress")?.threads.len() as u32;
    let first = focus.thread / 32 * 32;
    let mut text = String::new();
    for thread in first..count.min(first + 32) {
        debug.look_at(focus.block, thread);
        let value = match debug.value(rest) {
            Ok(value) => value,
            Err(error) => format!("({})", error.title.lines().next().unwrap_or("no value")),
        };
        let mark = if thread == focus.thread { ">" } else { " " };
        text += &format!("{mark} {:<22} {value}\n", show::thread_label(debug, focus.block, thread));
    }
    debug.focus = focus;
    Ok(text)
}

/// Copies an array of numbers, to be drawn as a picture.
fn copy_array(rest: &str, debug: &Debug<'_, '_>) -> CommandResult<Array> {
    let array = debug.array(rest).ok_or_else(|| format!("`{rest}` is not an array that the thread can access"))?;
    let [leaf] = array.layout.leaves.as_slice() else {
        return Err(format!("`{rest}` is not an array of numbers").into());
    };
    let clk_ir::def::Ty::Scalar(scalar) = leaf.ty else {
        return Err(format!("`{rest}` is not an array of numbers").into());
    };
    let (bytes, count) = (debug.bytes(&array).ok_or("it is not there")?, frame::count(&array));
    if count > MOST_PIXELS {
        return Err(format!("`{rest}` has {count} elements, too many for a picture").into());
    }
    let shape: Vec<usize> = array.extents.iter().map(|&n| n as usize).collect();
    let mut numbers = Vec::with_capacity(count * scalar.size());
    for at in 0..count {
        let value = bytes.get(at * array.layout.size, leaf.ty);
        let value = value.map_or(clk_scalar::ScalarValue::zero(scalar), |val| val.lane(0));
        numbers.extend_from_slice(&value.to_bytes()[..scalar.size()]);
    }
    Ok(Array::from_bytes(ElementType::Scalar(scalar), &shape, &numbers)?)
}

fn picture(
    rest: &str,
    debug: &Debug<'_, '_>,
    draw: impl Fn(&Array) -> clk_host::problem::HostResult<ShownPicture>,
) -> CommandResult<CommandOutcome> {
    let array = copy_array(rest, debug)?;
    let flat = array.shape().len() == 1;
    let array = if flat { array.with_shape(&[1, array.count()])? } else { array };
    Ok(CommandOutcome::Picture(Box::new(draw(&array)?)))
}

fn curve(rest: &str, debug: &Debug<'_, '_>) -> CommandResult<CommandOutcome> {
    let y = copy_array(rest, debug)?;
    if y.shape().len() != 1 {
        return Err(format!("`plot` draws arrays of one axis; `heat {rest}` draws this one").into());
    }
    let figures = chart::figures(ChartKind::Plot, &[HostValue::Array(y)], &ChartOptions::default())?;
    Ok(CommandOutcome::Picture(Box::new(ShownPicture::chart(figures, None)?)))
}

fn info(rest: &str, debug: &Debug<'_, '_>) -> CommandResult {
    const TOPICS: [&str; 5] = ["locals", "threads", "barriers", "launch", "history"];
    let topic = TOPICS.into_iter().find(|topic| !rest.is_empty() && topic.starts_with(rest));
    Ok(match topic {
        Some("locals") => show::locals(debug),
        Some("threads") => show::threads(debug),
        Some("barriers") => show::barriers(debug),
        Some("launch") => format!(
            "launch {} of `{}` at {}: {} blocks of {} threads, step {}\n",
            debug.number,
            debug.kernel(),
            show::place(debug, debug.launched),
            debug.timeline.launch.blocks,
            debug.timeline.launch.threads(0),
            debug.timeline.position(),
        ),
        Some(_) => {
            let (copies, bytes) = debug.timeline.kept();
            format!("step {}, {copies} copies of the state, {bytes} bytes\n", debug.timeline.position())
        }
        None => {
            return Err("info about what? say `locals`, `threads`, `barriers`, `break`, `launch` or `history`".into());
        }
    })
}

/// Focuses a thread of the current block, given by its coordinates in the block or, for a `threads` kernel, by its
/// index tuple.
fn thread(rest: &str, debug: &mut Debug<'_, '_>) -> CommandResult {
    if rest.is_empty() {
        return Ok(show::location_text(debug));
    }
    let (wanted, _) = read_coordinates(rest)?;
    let block = debug.focus.block;
    let count = debug.block().ok_or("the block is not in progress")?.threads.len() as u32;
    let is_it = |thread: &u32| {
        let ids = debug.ids(block, *thread);
        match ids.index {
            Some((index, rank)) => wanted[..] == index[..rank],
            None => super::breakpoint::matches_coordinates(&wanted, &ids.thread),
        }
    };
    let number = (0..count).find(is_it).ok_or_else(|| format!("there is no thread {} in this block", rest.trim()))?;
    debug.look_at(block, number);
    Ok(show::location_text(debug))
}

fn block_number(at: &[u32], debug: &Debug<'_, '_>) -> CommandResult<u64> {
    let clk_runtime::LaunchExtents::Grid { grid, .. } = debug.timeline.launch.extents else {
        let (number, blocks) = (u64::from(at[0]), debug.timeline.launch.blocks);
        let refused = || format!("the launch has {blocks} groups of 32 threads").into();
        return if at.len() == 1 && number < blocks { Ok(number) } else { Err(refused()) };
    };
    let axis = |i: usize| u64::from(at.get(i).copied().unwrap_or(0));
    if (0..3).any(|i| axis(i) >= u64::from(grid[i])) {
        return Err(format!("the grid has {} by {} by {} blocks", grid[0], grid[1], grid[2]).into());
    }
    Ok((axis(2) * u64::from(grid[1]) + axis(1)) * u64::from(grid[0]) + axis(0))
}

fn block(rest: &str, debug: &mut Debug<'_, '_>) -> CommandResult {
    if !rest.is_empty() {
        let (at, _) = read_coordinates(rest)?;
        let number = block_number(&at, debug)?;
        if debug.state().block(number).is_none() {
            let current = debug.state().block.number;
            let status = if number < current { "has ended" } else { "has not begun" };
            return Err(
                format!("block {number} {status} at this step; `goto block {number}` goes to its first one").into()
            );
        }
        debug.look_at(number, 0);
    }
    Ok(show::threads(debug))
}

fn frame_by(up: bool, debug: &mut Debug<'_, '_>) -> CommandResult {
    let deepest = debug.thread().map_or(0, |thread| thread.frames.len().saturating_sub(1));
    let depth = debug.focus.depth;
    debug.focus.depth = match up {
        true => depth.checked_sub(1).ok_or("this is the kernel itself")?,
        false if depth < deepest => depth + 1,
        false => return Err("this is the innermost call".into()),
    };
    Ok(show::location_text(debug))
}
