//! Computes the provenance of an array element, as a tree from the element to the inputs of the program.
//!
//! Input: a program, and an element of a variable (`y[17]`), or a variable in which to find a non-finite number.
//! Output: the text of the tree. The program runs again and records its launches. The launch that wrote the array then
//! runs in the stepper, where the element is traced backward ([`Origins`]). The loads on the way lead to arguments of
//! the launch, which earlier launches have written (a dynamic slice).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::command_error::{CommandError, CommandResult};
use clk_base::source::{SourceMap, Span};
use clk_check::typed::{Global, KernelId, NameBinding};
use clk_compile::Session;
use clk_host::array::Array;
use clk_host::interp::{Interpreter, RecordedLaunch, recorded_args};
use clk_host::value::HostValue;
use clk_ir::def::{ElementLayout, KernelParam, Leaf, Ty};
use clk_ir::{Checks, PreparedKernel};
use clk_runtime::thread_description;
use clk_scalar::{ScalarValue as Scalar, format};
use clk_step::StepLaunch;
use clk_step::ThreadValue;
use clk_step::origin::{ElementPoint, LoopSum, OriginNode, Origins, ValueSource, is_finite};
use clk_step::timeline::Timeline;
use clk_step::{ArrayStorage, ThreadIds};

mod expression;
mod expression_text;
mod tree;

use expression_text::{SourceElement, is_plain};
pub(crate) use tree::{TreeWindow, WhyTree};

use super::disk::Disk;
use super::effects::CapturedEffects;
use super::launch::compiled_launch;

/// Maximum total size of the snapshots of one launch, in bytes.
const SNAPSHOT_BYTES: u64 = 256 << 20;

/// Returns the provenance tree of an element of a variable, such as `y[17]`. The program must have recorded its
/// launches.
pub(crate) fn element(
    session: &mut Session,
    interpreter: &mut Interpreter,
    asked: &str,
    part: &TreeWindow,
) -> CommandResult<WhyTree> {
    let (name, index) = split_element(asked)?;
    let array = variable(session, interpreter, name)?;
    let index = indices(session, interpreter, &index)?;
    element_tree(session, interpreter, asked, name, &array, &index, part)
}

/// Like [`element`], for an array that an embedded call wrote or returned. `find` returns the array with a name. The
/// indices must be numbers, not expressions.
pub(crate) fn element_of_call(
    session: &Session,
    interpreter: &Interpreter,
    asked: &str,
    find: impl FnOnce(&str) -> CommandResult<Array>,
    part: &TreeWindow,
) -> CommandResult<WhyTree> {
    let (name, index) = split_element(asked)?;
    let array = find(name)?;
    let number = |text: &&str| text.parse().map_err(|_| format!("`{text}` is not an index").into());
    let index = index.iter().map(number).collect::<CommandResult<Vec<usize>>>()?;
    element_tree(session, interpreter, asked, name, &array, &index, part)
}

/// Returns the provenance tree of an element of an array.
fn element_tree(
    session: &Session,
    interpreter: &Interpreter,
    asked: &str,
    name: &str,
    array: &Array,
    index: &[usize],
    part: &TreeWindow,
) -> CommandResult<WhyTree> {
    let shape = array.shape().to_vec();
    let outside = index.iter().zip(&shape).any(|(at, extent)| at >= extent);
    if index.len() != shape.len() || outside {
        return Err(format!("`{name}` has the shape {shape:?}: `{asked}` is not an element of it").into());
    }
    let mut writer = ProvenanceWriter::new(session, interpreter, part);
    let launch_count = recorded(writer.interpreter).len();
    writer.element(array, launch_count, name, index, 0)?;
    writer.tree.finished()
}

/// Finds a non-finite element of a variable and traces it back to the operation that first produced a non-finite
/// number. Returns the provenance tree of that operation.
pub(crate) fn trace_nonfinite(
    session: &Session,
    interpreter: &Interpreter,
    name: &str,
    part: &TreeWindow,
) -> CommandResult<WhyTree> {
    let name = name.trim();
    let array = variable(session, interpreter, name)?;
    trace_nonfinite_in(session, interpreter, name, array, part)
}

/// Like [`trace_nonfinite`], for an array that is called `name`.
pub(crate) fn trace_nonfinite_in(
    session: &Session,
    interpreter: &Interpreter,
    name: &str,
    array: Array,
    part: &TreeWindow,
) -> CommandResult<WhyTree> {
    let recorded = recorded(interpreter);
    let by_launch = recorded.iter().any(|launch| launch.result_param(&array).is_some());
    if !by_launch && interpreter.observers.provenance.producing_step(&array).is_none() {
        return Err(
            format!("neither a launch nor an expression left `{name}`: only what these compute is followed").into()
        );
    }
    let layout = array.element().layout();
    let parts = (0..array.count()).flat_map(|at| layout.leaves.iter().map(move |leaf| (at, leaf)));
    let mut wrong = None;
    for (at, leaf) in parts {
        if stored_value(&array, at * layout.size + leaf.offset, leaf.ty)?.is_some_and(|value| !is_finite(value)) {
            wrong = Some((at * layout.size + leaf.offset, leaf.ty));
            break;
        }
    }
    let Some((offset, ty)) = wrong else { return Err(format!("all numbers of `{name}` are finite").into()) };
    let mut writer = ProvenanceWriter::new(session, interpreter, part);
    writer.trace_nonfinite(array, name, offset, ty)?;
    writer.tree.finished()
}

fn recorded(interpreter: &Interpreter) -> &[RecordedLaunch] {
    interpreter.observers.recorded_launches.as_deref().unwrap_or_default()
}

/// Reads the value at a byte offset in an array's host memory; `None` if the offset is out of range.
fn stored_value(array: &Array, offset: usize, ty: Ty) -> CommandResult<Option<ThreadValue>> {
    let bytes = array.bytes()?;
    let scalar = ty.scalar();
    let lane = |lane: usize| Some(Scalar::from_bytes(scalar, bytes.get(offset + lane * scalar.size()..)?));
    let lanes: Option<Vec<Scalar>> = (0..usize::from(ty.lanes())).map(lane).collect();
    Ok(lanes.map(|lanes| ThreadValue::from_values(ty, lanes)))
}

/// Converts a row-major index to indices of all axes.
fn unflatten(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (to, &extent) in index.iter_mut().zip(shape).rev() {
        *to = at % extent.max(1);
        at /= extent.max(1);
    }
    index
}

fn join_indices(index: &[usize]) -> String {
    index.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn no_memory<E>(_: E) -> CommandError {
    "there is not enough memory".into()
}

/// Splits the text `y[i, j]` into the name and the texts of the indices.
fn split_element(asked: &str) -> CommandResult<(&str, Vec<&str>)> {
    let no_element = || format!("`{asked}` is not an element of a variable, such as `y[17]`");
    let (name, rest) = asked.trim().split_once('[').ok_or_else(no_element)?;
    let inside = rest.strip_suffix(']').ok_or_else(no_element)?;
    let (mut depth, mut from, mut all) = (0, 0, vec![]);
    for (at, c) in inside.char_indices() {
        depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
        if c == ',' && depth == 0 {
            all.push(inside[from..at].trim());
            from = at + 1;
        }
    }
    all.push(inside[from..].trim());
    Ok((name.trim(), all))
}

/// Returns the value of a variable of the program, which must be an array.
fn variable(session: &Session, interpreter: &Interpreter, name: &str) -> CommandResult<Array> {
    let module = session.main.and_then(|main| session.program.modules.get(main));
    let Some(NameBinding::Global(id)) = module.and_then(|module| module.names.get(name)) else {
        return Err(format!("the program has no variable `{name}`").into());
    };
    match interpreter.globals.get(id.index()) {
        Some(Some(HostValue::Array(array))) => Ok(array.clone()),
        Some(Some(_)) => Err(format!("`{name}` is not an array; only elements of arrays are traced").into()),
        _ => Err(format!("`{name}` has no value: the program did not get there").into()),
    }
}

/// Evaluates the expressions of indices in the session.
fn indices(session: &mut Session, interpreter: &mut Interpreter, texts: &[&str]) -> CommandResult<Vec<usize>> {
    let mut all = vec![];
    for text in texts {
        let wrong = || format!("`{text}` is not an index");
        if let Ok(number) = text.parse::<usize>() {
            all.push(number);
            continue;
        }
        let entered = session.enter("<index>", text, &Disk).outcome;
        if entered.failed() {
            return Err(wrong().into());
        }
        let mut index = None;
        for chunk in entered.chunks {
            let last =
                interpreter.run_entry(session, chunk, &mut CapturedEffects::default()).map_err(|error| error.title)?;
            index = last.and_then(|last| last.value.as_int());
        }
        all.push(index.and_then(|number| usize::try_from(number).ok()).ok_or_else(wrong)?);
    }
    Ok(all)
}

/// A recorded launch that runs again in the stepper.
#[derive(Clone, Copy)]
struct TracedLaunch<'l> {
    /// The index of the launch among those recorded in the run.
    number: usize,
    recorded: &'l RecordedLaunch,
    /// The kernel that the launch runs.
    prepared: &'l PreparedKernel,
}

/// Writes a provenance tree.
struct ProvenanceWriter<'a> {
    session: &'a Session,
    interpreter: &'a Interpreter,
    tree: WhyTree,
    /// The nodes already expanded in the tree, each with the index of its launch.
    told: Vec<(usize, OriginNode)>,
    /// The elements already expanded in the tree, each with the index of the recorded expression.
    told_steps: Vec<(usize, usize)>,
}

impl<'a> ProvenanceWriter<'a> {
    fn new(session: &'a Session, interpreter: &'a Interpreter, part: &TreeWindow) -> Self {
        ProvenanceWriter { session, interpreter, tree: WhyTree::new(part), told: vec![], told_steps: vec![] }
    }

    fn sources(&self) -> &'a SourceMap {
        &self.session.sources
    }

    /// Returns the location of a span: `line 3`, or `std/scan.clk:3` in a file other than the main file.
    fn place(&self, span: Span) -> String {
        let line = self.sources().line_column(span).0;
        let main = self.session.main.and_then(|main| self.session.program.modules.get(main));
        match main.is_none_or(|main| main.file == span.file) {
            true => format!("line {line}"),
            false => format!("{}:{line}", self.sources().name(span.file)),
        }
    }

    /// Returns whether a launch is the statement generated for an embedded call.
    fn is_of_call(&self, span: Span) -> bool {
        self.sources().name(span.file) == compiled_launch::SOURCE_NAME
    }

    /// Returns a name for a launch: `the launch at line 3`, or `the call` for an embedded call.
    fn launch_at(&self, span: Span) -> String {
        match self.is_of_call(span) {
            true => "the call".into(),
            false => format!("the launch at {}", self.place(span)),
        }
    }

    fn source(&self, span: Span) -> String {
        self.sources().slice(span).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn say(&mut self, level: usize, text: &str) {
        self.tree.say(level, text);
    }

    /// Returns whether the children of the last line, which has this level, are shown.
    fn goes_on(&mut self, level: usize) -> bool {
        let goes_on = self.tree.goes_on(level);
        if self.tree.begins(level) {
            // The window begins here, and earlier lines are not shown. Nodes in them must be expanded again.
            self.told.clear();
            self.told_steps.clear();
        }
        goes_on
    }

    /// Returns the last of the first `launch_count` launches that wrote an array, with its index, and the index of the
    /// array's parameter.
    fn maker(&self, array: &Array, launch_count: usize) -> Option<(usize, &'a RecordedLaunch, usize)> {
        let interpreter: &'a Interpreter = self.interpreter;
        let earlier = || recorded(interpreter).iter().enumerate().take(launch_count).rev();
        let exact = earlier().find_map(|(number, launch)| Some((number, launch, launch.result_param(array)?)));
        match exact {
            None if interpreter.observers.provenance.producing_step(array).is_none() => {
                earlier().find_map(|(number, launch)| Some((number, launch, launch.reshaped_result_param(array)?)))
            }
            exact => exact,
        }
    }

    /// Returns whether a recorded launch or expression produced an array.
    fn is_made(&self, array: &Array, launch_count: usize) -> bool {
        self.maker(array, launch_count).is_some()
            || self.interpreter.observers.provenance.producing_step(array).is_some()
    }

    /// Writes the provenance of an array element with the value that it had after the first `launch_count` launches.
    fn element(
        &mut self,
        array: &Array,
        launch_count: usize,
        name: &str,
        index: &[usize],
        level: usize,
    ) -> CommandResult<()> {
        let interpreter: &'a Interpreter = self.interpreter;
        let flat = index.iter().zip(array.shape()).fold(0, |flat, (at, extent)| flat * extent + at);
        let Some((number, launch, param)) = self.maker(array, launch_count) else {
            if let Some((step, _)) = interpreter.observers.provenance.producing_step(array) {
                return self.step(step, &format!("{name}[{}]", join_indices(index)), false, flat, level);
            }
            let said = self.script_array_text(array, name, index);
            self.say(level, &said);
            return Ok(());
        };
        let shape = match launch.results.get(param) {
            Some(Some(HostValue::Array(left))) => left.shape(),
            _ => array.shape(),
        };
        let index = &unflatten(flat, shape)[..];
        let prepared = self.prepared(launch)?;
        let (args, positions) = recorded_args(launch).map_err(no_memory)?;
        let position = positions.get(param).copied().unwrap_or(0);
        let mut origins = self.origins(launch, &prepared, &args)?;
        let end = origins.end()?;
        let (own, layout) = array_of(&prepared, position).ok_or("the launch has no such array")?;
        for leaf in &layout.leaves {
            let spot = memory_location(&own, index, position, end, leaf, flat * layout.size + leaf.offset);
            if own != name {
                let kernel = self.kernel_name(launch.kernel());
                let launched = match self.is_of_call(launch.span) {
                    true => String::new(),
                    false => format!(", launched at {}", self.place(launch.span)),
                };
                self.say(level, &format!("{name} is `{own}` of `{kernel}`{launched}"));
            }
            let node = origins.find_last_write(&spot)?;
            self.compare(&node, stored_value(array, spot.offset, spot.ty)?, level);
            self.node(&mut origins, TracedLaunch { number, recorded: launch, prepared: &prepared }, &node, level)?;
        }
        Ok(())
    }

    /// Reports if the stepper's value differs from that of the original run: the result may depend on a race or on the
    /// order of threads.
    fn compare(&mut self, node: &OriginNode, own: Option<ThreadValue>, level: usize) {
        let bits =
            |val: &ThreadValue| val.values().map(|lane| if lane.is_nan() { None } else { Some(lane.bits) }).collect();
        let (Some(found), Some(own)) = (&node.value, own) else { return };
        let (ours, theirs): (Vec<Option<u64>>, Vec<Option<u64>>) = (bits(found), bits(&own));
        if ours != theirs {
            let name = node.name.as_deref().unwrap_or("it");
            self.say(
                level,
                &format!(
                    "in the run {name} is {}; run step by step, in another order of threads, it is {}:",
                    shown(&own),
                    shown(found)
                ),
            );
        }
    }

    /// Traces a non-finite number back to the operation that first produced it, and writes that operation. The number
    /// has the type `ty` and is at a byte offset in an array.
    fn trace_nonfinite(&mut self, array: Array, name: &str, mut offset: usize, ty: Ty) -> CommandResult<()> {
        let (mut array, mut name) = (array, name.to_string());
        let mut launch_count = recorded(self.interpreter).len();
        loop {
            let Some((number, launch, param)) = self.maker(&array, launch_count) else {
                let Some((step, _)) = self.interpreter.observers.provenance.producing_step(&array) else { break };
                let at = offset / array.element().size().max(1);
                match self.follow_nonfinite(step, at)? {
                    None => return Ok(()),
                    Some(SourceElement { from, text, at, launches }) => {
                        offset = at * from.element().size();
                        (array, name, launch_count) = (from, text, launches);
                        continue;
                    }
                }
            };
            let prepared = self.prepared(launch)?;
            let (args, positions) = recorded_args(launch).map_err(no_memory)?;
            let position = positions.get(param).copied().unwrap_or(0);
            let mut origins = self.origins(launch, &prepared, &args)?;
            let end = origins.end()?;
            let (own, layout) = array_of(&prepared, position).ok_or("the launch has no such array")?;
            let leaf = layout.leaves.iter().rfind(|leaf| leaf.offset <= offset % layout.size.max(1));
            let leaf = Leaf { ty, ..leaf.ok_or("the launch has no such array")?.clone() };
            let index = unflatten(offset / layout.size.max(1), array.shape());
            let node = origins.find_last_write(&memory_location(&own, &index, position, end, &leaf, offset))?;
            if node.value.is_none_or(is_finite) {
                let stored = stored_value(&array, offset, ty)?.map_or(String::new(), |value| shown(&value));
                let element = format!("{name}[{}]", join_indices(&index));
                return Err(format!(
                    "`{element}` is {stored} in the run, and finite if {} runs step by step: it \
                     depends on the order of threads (`--check` reports races)",
                    self.launch_at(launch.span)
                )
                .into());
            }
            let (node, is_there) = origins.trace_nonfinite(node)?;
            if let ValueSource::Argument(position, spot) = &node.source {
                let param = positions.iter().position(|at| at == position);
                let argument =
                    param.and_then(|param| Some((launch.arguments.get(param)?, launch.arg_spans.get(param)?)));
                if let Some((HostValue::Array(from), place)) = argument
                    && self.is_made(from, number)
                {
                    name = place.map_or(spot.name.clone(), |place| self.source(place));
                    (array, offset, launch_count) = (from.clone(), spot.offset, number);
                    continue;
                }
            }
            let title = match &node.source {
                _ if !is_there => "one of many numbers that are not finite and lead to each other, in",
                ValueSource::Argument(..) | ValueSource::End("a parameter") => {
                    "a number that is not finite was passed to"
                }
                _ => "the first number that is not finite, in",
            };
            let said = format!("{title} {}:", self.launch_at(launch.span));
            self.say(0, &said);
            return self.node(&mut origins, TracedLaunch { number, recorded: launch, prepared: &prepared }, &node, 1);
        }
        let said =
            self.script_array_text(&array, &name, &unflatten(offset / array.element().size().max(1), array.shape()));
        self.say(0, &said);
        Ok(())
    }

    fn kernel_name(&self, kernel: KernelId) -> String {
        self.session.program.kernels.get(kernel).map_or(String::new(), |kernel| kernel.name.to_string())
    }

    /// Describes an array element that no recorded launch or expression produced.
    fn script_array_text(&self, array: &Array, name: &str, index: &[usize]) -> String {
        let is_own = |(id, _): &(clk_base::arena::Id<Global>, &Global)| match self.interpreter.globals.get(id.index()) {
            Some(Some(HostValue::Array(own))) => Arc::ptr_eq(own.data(), array.data()),
            _ => false,
        };
        let flat = index.iter().zip(array.shape()).fold(0, |flat, (at, extent)| flat * extent + at);
        let value = expression_text::element_text(array, flat).map_or(String::new(), |value| format!(" = {value}"));
        let element = format!("{name}[{}]{value}", join_indices(index));
        match self.session.program.globals.iter().find(is_own) {
            // The expression that produced it may not have been recorded.
            _ if self.interpreter.observers.provenance.is_full => {
                format!("{element}, by the script: not all expressions could be kept, for lack of memory")
            }
            Some((_, global)) => {
                let place = self.place(global.span);
                format!(
                    "{element}, which no launch or expression left so: the script made or changed `{}`, of {place}",
                    global.name
                )
            }
            None => format!("{element}, which no launch or expression left so, but the script in another way"),
        }
    }

    fn prepared(&self, launch: &RecordedLaunch) -> CommandResult<PreparedKernel> {
        let checks = Checks { memory: true, ..Checks::default() };
        clk_compile::compile_kernel(&self.session.program, &launch.instance, checks)
            .map_err(|_| "the kernel cannot be compiled".into())
    }

    fn origins<'m>(
        &self,
        launch: &RecordedLaunch,
        prepared: &'m PreparedKernel,
        args: &[clk_runtime::Arg<'_>],
    ) -> CommandResult<Origins<'m>> {
        let stepped = StepLaunch::new(&prepared.module, launch.extents, args, 0);
        let stop: Arc<AtomicBool> = self.interpreter.options.control.stop.clone();
        let timeline = Timeline::new(stepped, args, SNAPSHOT_BYTES, stop)?;
        Ok(Origins::new(timeline))
    }

    fn node(
        &mut self,
        origins: &mut Origins<'_>,
        launch: TracedLaunch<'_>,
        node: &OriginNode,
        level: usize,
    ) -> CommandResult<()> {
        self.node_as(origins, launch, node, None, level)
    }

    /// Writes a node and its operands. If the node is an array element, `read` is the text of the expression that reads
    /// it.
    fn node_as(
        &mut self,
        origins: &mut Origins<'_>,
        launch: TracedLaunch<'_>,
        node: &OriginNode,
        read: Option<&str>,
        level: usize,
    ) -> CommandResult<()> {
        if self.tree.is_full() {
            return Ok(());
        }
        let text = self.source(node.span);
        let value = node.value.as_ref().map(|val| format!(" = {}", shown(val))).unwrap_or_default();
        let head = match (self.name(node), read) {
            (Some(name), Some(read)) if name != read => format!("{read} is {name}{value}"),
            (Some(name), _) => format!("{name}{value}"),
            (None, _) if value == format!(" = {text}") => text.clone(),
            (None, _) if text.starts_with("threads(") => format!("an index{value}"),
            (None, _) => format!("{text}{value}"),
        };
        let place = self.place(node.span);
        let key = (launch.number, node.clone());
        match &node.source {
            ValueSource::End(why) => {
                let said = if head.starts_with(why) { head } else { format!("{head}, {why}") };
                self.say(level, &said);
                return Ok(());
            }
            ValueSource::Argument(position, spot) => {
                return self.argument(launch, *position, spot, &head, level);
            }
            ValueSource::Element(_) => {
                // The tree has no line for the element itself. It has a line for the statement that stored the element,
                // with the name and value of the element.
                let parts = origins.parts(node)?;
                let read = Some(text.as_str());
                return parts.iter().try_for_each(|part| self.node_as(origins, launch, part, read, level));
            }
            ValueSource::Operands(..) | ValueSource::Update(..) | ValueSource::Components(_) => {
                let by = node.writer.map(|who| format!(", {}", thread(&who))).unwrap_or_default();
                let said = match (self.name(node), &node.writer) {
                    (Some(_), _) => format!("{head}: {place}{by}: {}", self.statement(node.span)),
                    (None, Some(_)) => format!("{head}: {place}{by}"),
                    (None, None) => head,
                };
                let sum = origins.sum(node)?;
                if let Some(LoopSum { count, start, largest }) = sum {
                    let from_zero = start.value.is_some_and(|start| start.values().all(|lane| lane.as_f64() == 0.0));
                    let first = match &start.value {
                        Some(value) if !from_zero => format!("{} and ", shown(value)),
                        _ => String::new(),
                    };
                    self.say(level, &format!("{said}, {first}a sum of {count} terms, of which the largest is"));
                    self.node(origins, launch, &largest, level + 1)?;
                    return if from_zero { Ok(()) } else { self.node(origins, launch, &start, level + 1) };
                }
                if self.told.contains(&key) {
                    self.say(level, &format!("{said}, as above"));
                    return Ok(());
                }
                self.say(level, &said);
            }
        }
        if !self.goes_on(level) {
            return Ok(());
        }
        self.told.push(key);
        let parts = origins.parts(node)?;
        // If the statement's only operand has the same text as the statement, shows the operands of that operand
        // instead.
        let parts = match &parts[..] {
            [one] if self.shows_expression(node, one) => origins.parts(one)?,
            _ => parts,
        };
        parts.iter().try_for_each(|part| self.node(origins, launch, part, level + 1))?;
        if node.writer.is_some() { self.branches(origins, launch, node, level + 1) } else { Ok(()) }
    }

    /// Writes the branch conditions under which a statement was executed.
    fn branches(
        &mut self,
        origins: &mut Origins<'_>,
        launch: TracedLaunch<'_>,
        node: &OriginNode,
        level: usize,
    ) -> CommandResult<()> {
        for condition in origins.conditions(node)? {
            // Skips a condition that belongs to the statement itself, such as one generated by the compiler, because
            // its text contains the statement's.
            if condition.span.file == node.span.file && condition.span.contains(node.span.start) {
                continue;
            }
            let key = (launch.number, condition.clone());
            let value = condition.value.as_ref().map_or("?".into(), shown);
            let (text, place) = (self.source(condition.span), self.place(condition.span));
            let repeated = if self.told.contains(&key) { ", as above" } else { "" };
            self.say(level, &format!("because {text} = {value}, {place}{repeated}"));
            if !repeated.is_empty() {
                continue;
            }
            if !self.goes_on(level) {
                continue;
            }
            self.told.push(key);
            for part in origins.parts(&condition)? {
                self.node(origins, launch, &part, level + 1)?;
            }
        }
        Ok(())
    }

    /// Returns whether the text already shown for a statement includes the expression that computes its value.
    fn shows_expression(&self, node: &OriginNode, value: &OriginNode) -> bool {
        let own = |span: Span| (span.file, self.sources().line_column(span).0);
        let is_operation = value.name.is_none() && matches!(value.source, ValueSource::Operands(..));
        is_operation && value.value == node.value && own(node.span) <= own(value.span)
    }

    /// Returns the name of a node; `None` if its variable was generated by the compiler.
    fn name<'n>(&self, node: &'n OriginNode) -> Option<&'n str> {
        let name = node.name.as_deref()?;
        let word = name.split(['[', '.']).next().unwrap_or(name);
        let mut words = self.sources().text(node.span.file).split(|c: char| !c.is_alphanumeric() && c != '_');
        words.any(|own| own == word).then_some(name)
    }

    /// Returns the source text from a location to the end of the statement, without line breaks.
    fn statement(&self, span: Span) -> String {
        let text = self.sources().text(span.file);
        let rest = text.get(span.start as usize..).unwrap_or_default();
        let mut depth = 0;
        let end = rest.char_indices().find(|(at, c)| {
            depth += i32::from("([{".contains(*c)) - i32::from(")]}".contains(*c));
            depth < 0 || depth == 0 && matches!(c, '\n' | ';') || rest[*at..].starts_with("//")
        });
        let text = rest.get(..end.map_or(rest.len(), |(at, _)| at)).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Writes the provenance of an argument of a launch.
    fn argument(
        &mut self,
        launch: TracedLaunch<'_>,
        position: usize,
        spot: &ElementPoint,
        head: &str,
        level: usize,
    ) -> CommandResult<()> {
        let TracedLaunch { number, recorded: launch, prepared } = launch;
        let (_, positions) = recorded_args(launch).map_err(no_memory)?;
        let param = positions.iter().position(|at| *at == position);
        let place = self.launch_at(launch.span);
        let traced = param.and_then(|param| Some((param, launch.arguments.get(param)?)));
        let (Some((param, HostValue::Array(array))), Some((_, layout))) = (traced, array_of(prepared, position)) else {
            self.say(level, &format!("{head}, as it was before {place}"));
            return Ok(());
        };
        let argument_span = launch.arg_spans.get(param).copied().flatten();
        let name = argument_span.map_or(spot.name.clone(), |argument_span| self.source(argument_span));
        let said = format!("{head}, of the argument `{name}` of {place}");
        self.say(level, &said);
        let is_literal = self.interpreter.observers.provenance.producing_step(array).is_some_and(|(_, step)| {
            argument_span == Some(step.span)
                && !step.operands.iter().any(|part| matches!(part.value, HostValue::Array(_)))
        });
        if is_literal || !self.is_made(array, number) {
            return Ok(());
        }
        if !self.goes_on(level) {
            return Ok(());
        }
        let at = spot.offset / layout.size.max(1);
        let array = array.clone();
        if let Some((step, own)) = self.interpreter.observers.provenance.producing_step(&array)
            && argument_span == Some(own.span)
            && self.maker(&array, number).is_none()
        {
            return self.parts_of_argument(step, at, level + 1);
        }
        let name = if is_plain(&name) { name } else { format!("({name})") };
        self.element(&array, number, &name, &unflatten(at, array.shape()), level + 1)
    }
}

/// Returns the memory location of a scalar field of an element, to be read at step `end`.
fn memory_location(
    array: &str,
    index: &[usize],
    position: usize,
    end: u64,
    leaf: &Leaf,
    offset: usize,
) -> ElementPoint {
    let path = if leaf.path.is_empty() { String::new() } else { format!(".{}", leaf.path) };
    let name = format!("{array}[{}]{path}", join_indices(index));
    ElementPoint { name, store: ArrayStorage::Global(position), block: 0, thread: 0, offset, ty: leaf.ty, before: end }
}

/// Returns the name and the element layout of an array parameter.
fn array_of(prepared: &PreparedKernel, position: usize) -> Option<(String, ElementLayout)> {
    let module = &prepared.module;
    let KernelParam::Array { name, memory, .. } = module.kernel.params.get(position)? else { return None };
    let body = module.functions.get(module.kernel.body)?;
    Some((name.clone(), body.memories.get(*memory)?.layout.clone()))
}

fn thread(ids: &ThreadIds) -> String {
    let index = ids.index.map(|(index, rank)| index[..rank].to_vec());
    thread_description(index.as_deref(), ids.thread, ids.block)
}

fn shown(val: &ThreadValue) -> String {
    let all: Vec<String> = val.values().map(format::plain).collect();
    if let [one] = &all[..] { one.clone() } else { format!("({})", all.join(", ")) }
}
