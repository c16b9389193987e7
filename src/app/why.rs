//! Where an element of an array came from, as a tree down to the inputs of the program.
//!
//! Input: a program, and an element of a variable (`y[17]`), or a variable in which to look for the first number that is not finite. Output: the
//! text of the tree. Idea: the program runs again with its launches kept; the launch that left the array runs once more, one statement at a
//! time, and is followed backwards ([`Origins`]); what it read leads to its arguments, and so to earlier launches.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::base::source::{Sources, Span};
use crate::check::typed::{Binding, Global, KernelId};
use crate::compile::{self, Session};
use crate::device::step::Launch;
use crate::device::step::Val;
use crate::device::step::origin::{Node, Origins, Source, Spot, Sum, is_finite};
use crate::device::step::timeline::{Interrupted, Timeline};
use crate::device::step::{Ids, Store};
use crate::device::who_text;
use crate::host::array::Array;
use crate::host::interp::{Interpreter, Recorded, args_of};
use crate::host::value::Value;
use crate::ir::def::{KernelParam, Layout, Leaf, Ty};
use crate::ir::{Checks, Prepared};
use crate::lang::scalar::{Value as Scalar, format};

mod expression;
mod tree;
mod words;

pub(crate) use tree::{Part, Tree};
use words::{Passed, is_plain};

use super::disk::Disk;
use super::launch::form;
use super::world::Captured;

/// Bytes for copies of a launch's state.
const COPIES: u64 = 256 << 20;

type Answer<T> = Result<T, String>;

/// Returns the tree of an element of a variable, `y[17]`; the program has run with its launches kept.
pub(crate) fn element(session: &mut Session, interpreter: &mut Interpreter, asked: &str, part: &Part) -> Answer<Tree> {
    let (name, index) = parts(asked)?;
    let array = variable(session, interpreter, name)?;
    let index = indices(session, interpreter, &index)?;
    followed(session, interpreter, (asked, name, &array), &index, part)
}

/// Like [`element`], but of an array that a call from outside has written or returned, which `find` finds by its name. Indices are numbers.
pub(crate) fn element_of_call(
    session: &Session,
    interpreter: &Interpreter,
    asked: &str,
    find: impl FnOnce(&str) -> Answer<Array>,
    part: &Part,
) -> Answer<Tree> {
    let (name, index) = parts(asked)?;
    let array = find(name)?;
    let number = |text: &&str| text.parse().map_err(|_| format!("`{text}` is not an index"));
    let index = index.iter().map(number).collect::<Answer<Vec<usize>>>()?;
    followed(session, interpreter, (asked, name, &array), &index, part)
}

/// Returns the tree of an element of an array.
fn followed(
    session: &Session,
    interpreter: &Interpreter,
    (asked, name, array): (&str, &str, &Array),
    index: &[usize],
    part: &Part,
) -> Answer<Tree> {
    let shape = array.shape().to_vec();
    let outside = index.iter().zip(&shape).any(|(at, extent)| at >= extent);
    if index.len() != shape.len() || outside {
        return Err(format!("`{name}` has the shape {shape:?}: `{asked}` is no element of it"));
    }
    let mut teller = Teller::new(session, interpreter, part);
    let among = recorded(teller.interpreter).len();
    teller.element((array, among), (name, index), 0)?;
    teller.tree.finished()
}

/// Returns the tree of the operation to which the first number of a variable that is not finite goes back.
pub(crate) fn not_finite(session: &Session, interpreter: &Interpreter, name: &str, part: &Part) -> Answer<Tree> {
    let name = name.trim();
    let array = variable(session, interpreter, name)?;
    not_finite_in(session, interpreter, (name, array), part)
}

/// Like [`not_finite`], but of an array with this name.
pub(crate) fn not_finite_in(
    session: &Session,
    interpreter: &Interpreter,
    (name, array): (&str, Array),
    part: &Part,
) -> Answer<Tree> {
    let recorded = recorded(interpreter);
    let by_launch = recorded.iter().any(|launch| launch.made(&array).is_some());
    if !by_launch && interpreter.trail.maker(&array).is_none() {
        return Err(format!("neither a launch nor an expression left `{name}`: only what these compute is followed"));
    }
    let layout = array.element().layout();
    let parts = (0..array.count()).flat_map(|at| layout.leaves.iter().map(move |leaf| (at, leaf)));
    let mut wrong = None;
    for (at, leaf) in parts {
        if held(&array, at * layout.size + leaf.offset, leaf.ty)?.is_some_and(|value| !is_finite(value)) {
            wrong = Some((at * layout.size + leaf.offset, leaf.ty));
            break;
        }
    }
    let Some(place) = wrong else { return Err(format!("all numbers of `{name}` are finite")) };
    let mut teller = Teller::new(session, interpreter, part);
    teller.not_finite(array, name, place)?;
    teller.tree.finished()
}

fn recorded(interpreter: &Interpreter) -> &[Recorded] {
    interpreter.recorded.as_deref().unwrap_or_default()
}

/// Returns a part of an array of the host.
fn held(array: &Array, offset: usize, ty: Ty) -> Answer<Option<Val>> {
    let bytes = array.bytes().map_err(|problem| problem.anywhere().title)?;
    let scalar = ty.scalar();
    let lane = |lane: usize| Some(Scalar::from_bytes(scalar, bytes.get(offset + lane * scalar.size()..)?));
    let lanes: Option<Vec<Scalar>> = (0..usize::from(ty.lanes())).map(lane).collect();
    Ok(lanes.map(|lanes| Val::from_values(ty, lanes)))
}

/// Returns the indices of the element with this number.
fn unfolded(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (to, &extent) in index.iter_mut().zip(shape).rev() {
        *to = at % extent.max(1);
        at /= extent.max(1);
    }
    index
}

fn listed(index: &[usize]) -> String {
    index.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn stopped(Interrupted: Interrupted) -> String {
    "interrupted".to_string()
}

fn no_memory<E>(_: E) -> String {
    "there is not enough memory".to_string()
}

/// Divides `y[i, j]` into the name and the indices.
fn parts(asked: &str) -> Answer<(&str, Vec<&str>)> {
    let wanted = || format!("`{asked}` is no element of a variable, such as `y[17]`");
    let (name, rest) = asked.trim().split_once('[').ok_or_else(wanted)?;
    let inside = rest.strip_suffix(']').ok_or_else(wanted)?;
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

/// Returns the array of a variable of the program.
fn variable(session: &Session, interpreter: &Interpreter, name: &str) -> Answer<Array> {
    let module = session.main.and_then(|main| session.program.modules.get(main));
    let Some(Binding::Global(id)) = module.and_then(|module| module.names.get(name)) else {
        return Err(format!("the program has no variable `{name}`"));
    };
    match interpreter.globals.get(id.index()) {
        Some(Some(Value::Array(array))) => Ok(array.clone()),
        Some(Some(_)) => Err(format!("`{name}` is no array: only elements of arrays are followed")),
        _ => Err(format!("`{name}` has no value: the program did not get there")),
    }
}

/// Evaluates indices as entries of the session.
fn indices(session: &mut Session, interpreter: &mut Interpreter, texts: &[&str]) -> Answer<Vec<usize>> {
    let mut all = vec![];
    for text in texts {
        let wrong = || format!("`{text}` is no index");
        if let Ok(number) = text.parse::<usize>() {
            all.push(number);
            continue;
        }
        let entered = session.enter("<index>", text, &Disk).outcome;
        if entered.failed() {
            return Err(wrong());
        }
        let mut found = None;
        for chunk in entered.chunks {
            let last = interpreter.run_entry(session, chunk, &mut Captured::default()).map_err(|error| error.title)?;
            found = last.and_then(|last| last.value.as_int());
        }
        all.push(found.and_then(|number| usize::try_from(number).ok()).ok_or_else(wrong)?);
    }
    Ok(all)
}

/// Writes a tree.
struct Teller<'a> {
    session: &'a Session,
    interpreter: &'a Interpreter,
    tree: Tree,
    /// What has been taken apart, with the number of its launch.
    told: Vec<(usize, Node)>,
    /// The elements of expressions that have been, with the number of the expression.
    told_steps: Vec<(usize, usize)>,
}

impl<'a> Teller<'a> {
    fn new(session: &'a Session, interpreter: &'a Interpreter, part: &Part) -> Self {
        Teller { session, interpreter, tree: Tree::new(part), told: vec![], told_steps: vec![] }
    }

    fn sources(&self) -> &'a Sources {
        &self.session.sources
    }

    /// Returns `line 3`, or in another file than the program's own `std/scan.clk:3`.
    fn place(&self, span: Span) -> String {
        let line = self.sources().line_column(span).0;
        let main = self.session.main.and_then(|main| self.session.program.modules.get(main));
        match main.is_none_or(|main| main.file == span.file) {
            true => format!("line {line}"),
            false => format!("{}:{line}", self.sources().name(span.file)),
        }
    }

    /// Whether a launch is the statement of a call from outside.
    fn is_of_call(&self, span: Span) -> bool {
        self.sources().name(span.file) == form::NAME
    }

    /// Returns `the launch at line 3`, or `the call`.
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

    /// Returns whether what is below a line is shown.
    fn goes_on(&mut self, level: usize) -> bool {
        let goes_on = self.tree.goes_on(level);
        if self.tree.begins(level) {
            // What stands above is not shown.
            self.told.clear();
            self.told_steps.clear();
        }
        goes_on
    }

    /// Returns the last launch, of the first so many, that left an array, with its number and the parameter.
    fn maker(&self, array: &Array, among: usize) -> Option<(usize, &'a Recorded, usize)> {
        let interpreter: &'a Interpreter = self.interpreter;
        let earlier = || recorded(interpreter).iter().enumerate().take(among).rev();
        let exact = earlier().find_map(|(number, launch)| Some((number, launch, launch.made(array)?)));
        match exact {
            None if interpreter.trail.maker(array).is_none() => {
                earlier().find_map(|(number, launch)| Some((number, launch, launch.made_reshaped(array)?)))
            }
            exact => exact,
        }
    }

    /// Returns whether it is known what made an array.
    fn is_made(&self, array: &Array, among: usize) -> bool {
        self.maker(array, among).is_some() || self.interpreter.trail.maker(array).is_some()
    }

    /// Tells where an element of an array of the host came from, as the first so many launches left it.
    fn element(
        &mut self,
        (array, among): (&Array, usize),
        (name, index): (&str, &[usize]),
        level: usize,
    ) -> Answer<()> {
        let interpreter: &'a Interpreter = self.interpreter;
        let flat = index.iter().zip(array.shape()).fold(0, |flat, (at, extent)| flat * extent + at);
        let Some((number, launch, param)) = self.maker(array, among) else {
            if let Some((step, _)) = interpreter.trail.maker(array) {
                return self.step(step, (&format!("{name}[{}]", listed(index)), false), flat, level);
            }
            let said = self.by_the_script(array, name, index);
            self.say(level, &said);
            return Ok(());
        };
        let shape = match launch.left.get(param) {
            Some(Some(Value::Array(left))) => left.shape(),
            _ => array.shape(),
        };
        let index = &unfolded(flat, shape)[..];
        let prepared = self.prepared(launch)?;
        let (args, positions) = args_of(launch).map_err(no_memory)?;
        let position = positions.get(param).copied().unwrap_or(0);
        let mut origins = self.origins(launch, &prepared, &args)?;
        let end = origins.end().map_err(stopped)?;
        let (own, layout) = array_of(&prepared, position).ok_or("the launch has no such array")?;
        for leaf in &layout.leaves {
            let spot = spot(&own, index, (position, end), (leaf, flat * layout.size + leaf.offset));
            if own != name {
                let kernel = self.kernel_name(launch.kernel());
                let launched = match self.is_of_call(launch.span) {
                    true => String::new(),
                    false => format!(", launched at {}", self.place(launch.span)),
                };
                self.say(level, &format!("{name} is `{own}` of `{kernel}`{launched}"));
            }
            let node = origins.written(&spot).map_err(stopped)?;
            self.compare(&node, held(array, spot.offset, spot.ty)?, level);
            self.node(&mut origins, (number, launch, &prepared), &node, level)?;
        }
        Ok(())
    }

    /// Says so if a value is not that of the run: what a race or an order leaves can be either.
    fn compare(&mut self, node: &Node, own: Option<Val>, level: usize) {
        let bits = |val: &Val| val.values().map(|lane| if lane.is_nan() { None } else { Some(lane.bits) }).collect();
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

    /// Tells to which operation a part of an array that is not finite goes back: its offset, and its type.
    fn not_finite(&mut self, array: Array, name: &str, (mut offset, ty): (usize, Ty)) -> Answer<()> {
        let (mut array, mut name) = (array, name.to_string());
        let mut among = recorded(self.interpreter).len();
        loop {
            let Some((number, launch, param)) = self.maker(&array, among) else {
                let Some((step, _)) = self.interpreter.trail.maker(&array) else { break };
                let at = offset / array.element().size().max(1);
                match self.through(step, at)? {
                    None => return Ok(()),
                    Some(Passed { from, text, at, launches }) => {
                        offset = at * from.element().size();
                        (array, name, among) = (from, text, launches);
                        continue;
                    }
                }
            };
            let prepared = self.prepared(launch)?;
            let (args, positions) = args_of(launch).map_err(no_memory)?;
            let position = positions.get(param).copied().unwrap_or(0);
            let mut origins = self.origins(launch, &prepared, &args)?;
            let end = origins.end().map_err(stopped)?;
            let (own, layout) = array_of(&prepared, position).ok_or("the launch has no such array")?;
            let leaf = layout.leaves.iter().rfind(|leaf| leaf.offset <= offset % layout.size.max(1));
            let leaf = Leaf { ty, ..leaf.ok_or("the launch has no such array")?.clone() };
            let index = unfolded(offset / layout.size.max(1), array.shape());
            let node = origins.written(&spot(&own, &index, (position, end), (&leaf, offset))).map_err(stopped)?;
            if node.value.is_none_or(is_finite) {
                let held = held(&array, offset, ty)?.map_or(String::new(), |value| shown(&value));
                let element = format!("{name}[{}]", listed(&index));
                return Err(format!(
                    "`{element}` is {held} in the run, and finite if {} runs step by step: it \
                     depends on the order of threads (`--check` reports races)",
                    self.launch_at(launch.span)
                ));
            }
            let (node, is_there) = origins.not_finite(node).map_err(stopped)?;
            if let Source::Argument(position, spot) = &node.source {
                let param = positions.iter().position(|at| at == position);
                let given = param.and_then(|param| Some((launch.given.get(param)?, launch.places.get(param)?)));
                if let Some((Value::Array(from), place)) = given
                    && self.is_made(from, number)
                {
                    name = place.map_or(spot.name.clone(), |place| self.source(place));
                    (array, offset, among) = (from.clone(), spot.offset, number);
                    continue;
                }
            }
            let title = match &node.source {
                _ if !is_there => "one of many numbers that are not finite and lead to each other, in",
                Source::Argument(..) | Source::End("a parameter") => "a number that is not finite was passed to",
                _ => "the first number that is not finite, in",
            };
            let said = format!("{title} {}:", self.launch_at(launch.span));
            self.say(0, &said);
            return self.node(&mut origins, (number, launch, &prepared), &node, 1);
        }
        let said = self.by_the_script(&array, &name, &unfolded(offset / array.element().size().max(1), array.shape()));
        self.say(0, &said);
        Ok(())
    }

    fn kernel_name(&self, kernel: KernelId) -> String {
        self.session.program.kernels.get(kernel).map_or(String::new(), |kernel| kernel.name.to_string())
    }

    /// Says that no launch left an array.
    fn by_the_script(&self, array: &Array, name: &str, index: &[usize]) -> String {
        let is_own =
            |(id, _): &(crate::base::arena::Id<Global>, &Global)| match self.interpreter.globals.get(id.index()) {
                Some(Some(Value::Array(own))) => Arc::ptr_eq(own.data(), array.data()),
                _ => false,
            };
        let flat = index.iter().zip(array.shape()).fold(0, |flat, (at, extent)| flat * extent + at);
        let value = words::element_text(array, flat).map_or(String::new(), |value| format!(" = {value}"));
        let element = format!("{name}[{}]{value}", listed(index));
        match self.session.program.globals.iter().find(is_own) {
            // What is not kept may be what made it.
            _ if self.interpreter.trail.is_full => {
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

    fn prepared(&self, launch: &Recorded) -> Answer<Prepared> {
        let checks = Checks { memory: true, ..Checks::default() };
        compile::kernel(&self.session.program, &launch.instance, checks)
            .map_err(|_| "the kernel cannot be compiled".into())
    }

    fn origins<'m>(
        &self,
        launch: &Recorded,
        prepared: &'m Prepared,
        args: &[crate::device::Arg<'_>],
    ) -> Answer<Origins<'m>> {
        let stepped = Launch::new(&prepared.module, launch.extents, args, 0);
        let stop: Arc<AtomicBool> = self.interpreter.options.control.stop.clone();
        let timeline = Timeline::new(stepped, args, COPIES, stop).map_err(|error| error.to_string())?;
        Ok(Origins::new(timeline))
    }

    fn node(
        &mut self,
        origins: &mut Origins<'_>,
        of: (usize, &Recorded, &Prepared),
        node: &Node,
        level: usize,
    ) -> Answer<()> {
        self.node_as(origins, of, (node, None), level)
    }

    /// Tells what a node is, and what it was made of; of an element, with the expression that reads it.
    fn node_as(
        &mut self,
        origins: &mut Origins<'_>,
        of: (usize, &Recorded, &Prepared),
        (node, read): (&Node, Option<&str>),
        level: usize,
    ) -> Answer<()> {
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
        let told = (of.0, node.clone());
        match &node.source {
            Source::End(why) => {
                let said = if head.starts_with(why) { head } else { format!("{head}, {why}") };
                self.say(level, &said);
                return Ok(());
            }
            Source::Argument(position, spot) => {
                return self.argument(of, (*position, spot), &head, level);
            }
            Source::Element(_) => {
                // The statement that wrote it says its name and its value.
                let parts = origins.parts(node).map_err(stopped)?;
                let read = Some(text.as_str());
                return parts.iter().try_for_each(|part| self.node_as(origins, of, (part, read), level));
            }
            Source::Operands(..) | Source::Update(..) | Source::Components(_) => {
                let by = node.who.map(|who| format!(", {}", thread(&who))).unwrap_or_default();
                let said = match (self.name(node), &node.who) {
                    (Some(_), _) => format!("{head}: {place}{by}: {}", self.statement(node.span)),
                    (None, Some(_)) => format!("{head}: {place}{by}"),
                    (None, None) => head,
                };
                let sum = origins.sum(node).map_err(stopped)?;
                if let Some(Sum { count, start, largest }) = sum {
                    let from_zero = start.value.is_some_and(|start| start.values().all(|lane| lane.as_f64() == 0.0));
                    let first = match &start.value {
                        Some(value) if !from_zero => format!("{} and ", shown(value)),
                        _ => String::new(),
                    };
                    self.say(level, &format!("{said}, {first}a sum of {count} terms, of which the largest is"));
                    self.node(origins, of, &largest, level + 1)?;
                    return if from_zero { Ok(()) } else { self.node(origins, of, &start, level + 1) };
                }
                if self.told.contains(&told) {
                    self.say(level, &format!("{said}, as above"));
                    return Ok(());
                }
                self.say(level, &said);
            }
        }
        if !self.goes_on(level) {
            return Ok(());
        }
        self.told.push(told);
        let parts = origins.parts(node).map_err(stopped)?;
        // A statement's whole value says what the statement has said.
        let parts = match &parts[..] {
            [one] if self.says_all(node, one) => origins.parts(one).map_err(stopped)?,
            _ => parts,
        };
        parts.iter().try_for_each(|part| self.node(origins, of, part, level + 1))?;
        if node.who.is_some() { self.branches(origins, of, node, level + 1) } else { Ok(()) }
    }

    /// Tells why a statement that wrote an element was executed.
    fn branches(
        &mut self,
        origins: &mut Origins<'_>,
        of: (usize, &Recorded, &Prepared),
        node: &Node,
        level: usize,
    ) -> Answer<()> {
        for condition in origins.conditions(node).map_err(stopped)? {
            // What the compiler has made of a statement has the statement's own text.
            if condition.span.file == node.span.file && condition.span.contains(node.span.start) {
                continue;
            }
            let told = (of.0, condition.clone());
            let value = condition.value.as_ref().map_or("?".into(), shown);
            let (text, place) = (self.source(condition.span), self.place(condition.span));
            let above = if self.told.contains(&told) { ", as above" } else { "" };
            self.say(level, &format!("because {text} = {value}, {place}{above}"));
            if !above.is_empty() {
                continue;
            }
            if !self.goes_on(level) {
                continue;
            }
            self.told.push(told);
            for part in origins.parts(&condition).map_err(stopped)? {
                self.node(origins, of, &part, level + 1)?;
            }
        }
        Ok(())
    }

    /// Returns whether a statement's text, which was said, has the expression of its value in it.
    fn says_all(&self, node: &Node, value: &Node) -> bool {
        let own = |span: Span| (span.file, self.sources().line_column(span).0);
        let is_operation = value.name.is_none() && matches!(value.source, Source::Operands(..));
        is_operation && value.value == node.value && own(node.span) <= own(value.span)
    }

    /// Returns the name of a node; variables that the compiler has made have none.
    fn name<'n>(&self, node: &'n Node) -> Option<&'n str> {
        let name = node.name.as_deref()?;
        let word = name.split(['[', '.']).next().unwrap_or(name);
        let mut words = self.sources().text(node.span.file).split(|c: char| !c.is_alphanumeric() && c != '_');
        words.any(|own| own == word).then_some(name)
    }

    /// Returns the text from a place to the end of the statement, in one line.
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

    /// Tells where an argument of a launch came from.
    fn argument(
        &mut self,
        (number, launch, prepared): (usize, &Recorded, &Prepared),
        (position, spot): (usize, &Spot),
        head: &str,
        level: usize,
    ) -> Answer<()> {
        let (_, positions) = args_of(launch).map_err(no_memory)?;
        let param = positions.iter().position(|at| *at == position);
        let place = self.launch_at(launch.span);
        let known = param.and_then(|param| Some((param, launch.given.get(param)?)));
        let (Some((param, Value::Array(array))), Some((_, layout))) = (known, array_of(prepared, position)) else {
            self.say(level, &format!("{head}, as it was before {place}"));
            return Ok(());
        };
        let passed = launch.places.get(param).copied().flatten();
        let name = passed.map_or(spot.name.clone(), |passed| self.source(passed));
        let said = format!("{head}, of the argument `{name}` of {place}");
        self.say(level, &said);
        let is_literal = self.interpreter.trail.maker(array).is_some_and(|(_, step)| {
            passed == Some(step.span) && !step.operands.iter().any(|part| matches!(part.value, Value::Array(_)))
        });
        if is_literal || !self.is_made(array, number) {
            return Ok(());
        }
        if !self.goes_on(level) {
            return Ok(());
        }
        let at = spot.offset / layout.size.max(1);
        let array = array.clone();
        if let Some((step, own)) = self.interpreter.trail.maker(&array)
            && passed == Some(own.span)
            && self.maker(&array, number).is_none()
        {
            return self.parts_of_argument(step, at, level + 1);
        }
        let name = if is_plain(&name) { name } else { format!("({name})") };
        self.element((&array, number), (&name, &unfolded(at, array.shape())), level + 1)
    }
}

/// Returns the place of a part of an element in an array of a launch, at its end.
fn spot(array: &str, index: &[usize], (position, end): (usize, u64), (leaf, offset): (&Leaf, usize)) -> Spot {
    let path = if leaf.path.is_empty() { String::new() } else { format!(".{}", leaf.path) };
    let name = format!("{array}[{}]{path}", listed(index));
    Spot { name, store: Store::Global(position), block: 0, thread: 0, offset, ty: leaf.ty, before: end }
}

/// Returns the name and the layout of an array parameter.
fn array_of(prepared: &Prepared, position: usize) -> Option<(String, Layout)> {
    let module = &prepared.module;
    let KernelParam::Array { name, memory, .. } = module.kernel.params.get(position)? else { return None };
    let body = module.functions.get(module.kernel.body)?;
    Some((name.clone(), body.memories.get(*memory)?.layout.clone()))
}

fn thread(ids: &Ids) -> String {
    let index = ids.index.map(|(index, rank)| index[..rank].to_vec());
    who_text(index.as_deref(), ids.thread, ids.block)
}

fn shown(val: &Val) -> String {
    let all: Vec<String> = val.values().map(format::plain).collect();
    if let [one] = &all[..] { one.clone() } else { format!("({})", all.join(", ")) }
}
