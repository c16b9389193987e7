//! Where an element of an array came from, as a tree down to the inputs of the program.
//!
//! Input: a program, and an element of a variable (`y[17]`), or a variable in which to look for the first number that is not finite. Output: the
//! text of the tree. Idea: the program runs again with its launches kept; the launch that left the array runs once more, one statement at a
//! time, and is followed backwards ([`Origins`]); what it read leads to its arguments, and so to earlier launches.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::base::source::{Sources, Span};
use crate::check::typed::{Binding, Global, KernelId};
use crate::compile::{self, Session};
use crate::device::step::Launch;
use crate::device::step::Val;
use crate::device::step::origin::{Node, Origins, Source, Spot};
use crate::device::step::timeline::{Interrupted, Timeline};
use crate::device::step::{Ids, Store};
use crate::device::who_text;
use crate::host::array::Array;
use crate::host::interp::{Interpreter, Recorded, args_of};
use crate::host::value::Value;
use crate::ir::def::{KernelParam, Layout};
use crate::ir::{Checks, Prepared};
use crate::lang::scalar::format;

use super::disk::Disk;
use super::world::Captured;

/// Levels that are shown unless more are asked for, and lines at most.
pub(crate) const LEVELS: usize = 6;
const MOST_LINES: usize = 200;
/// Bytes for copies of a launch's state.
const COPIES: u64 = 256 << 20;

type Answer<T> = Result<T, String>;

/// Returns the tree of an element of a variable, `y[17]`; the program has run with its launches kept.
pub(crate) fn element(
    session: &mut Session,
    interpreter: &mut Interpreter,
    asked: &str,
    levels: usize,
) -> Answer<String> {
    let (name, index) = parts(asked)?;
    let array = variable(session, interpreter, name)?;
    let index = indices(session, interpreter, &index)?;
    let shape = array.shape().to_vec();
    let outside = index.iter().zip(&shape).any(|(at, extent)| at >= extent);
    if index.len() != shape.len() || outside {
        return Err(format!("`{name}` has the shape {shape:?}: `{asked}` is no element of it"));
    }
    let mut teller = Teller::new(session, interpreter, levels);
    teller.element(&array, name, &index, 0)?;
    Ok(teller.text)
}

/// Returns the tree of the first number that is not finite, in the launches that led to a variable.
pub(crate) fn not_finite(session: &Session, interpreter: &Interpreter, name: &str, levels: usize) -> Answer<String> {
    let name = name.trim();
    let array = variable(session, interpreter, name)?;
    let recorded = recorded(interpreter);
    let Some(last) = recorded.iter().rposition(|launch| launch.made(&array).is_some()) else {
        return Err(format!("no launch left `{name}`: only what kernels compute is followed"));
    };
    let mut teller = Teller::new(session, interpreter, levels);
    for launch in &recorded[..=last] {
        let prepared = teller.prepared(launch)?;
        let (args, _) = args_of(launch).map_err(|_| "there is not enough memory".to_string())?;
        let mut origins = teller.origins(launch, &prepared, &args)?;
        if let Some(node) = origins.first_not_finite().map_err(|Interrupted| "interrupted".to_string())? {
            let title =
                format!("the first number that is not finite, in the launch at line {}:", teller.line(launch.span));
            teller.say(0, &title);
            teller.node(&mut origins, (launch, &prepared), &node, 1)?;
            return Ok(teller.text);
        }
    }
    Err(format!("no operation of the launches that led to `{name}` makes a number that is not finite of finite ones"))
}

fn recorded(interpreter: &Interpreter) -> &[Recorded] {
    interpreter.recorded.as_deref().unwrap_or_default()
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
    levels: usize,
    lines: usize,
    text: String,
}

impl<'a> Teller<'a> {
    fn new(session: &'a Session, interpreter: &'a Interpreter, levels: usize) -> Self {
        Teller { session, interpreter, levels, lines: 0, text: String::new() }
    }

    fn sources(&self) -> &'a Sources {
        &self.session.sources
    }

    fn line(&self, span: Span) -> usize {
        self.sources().line_column(span).0
    }

    fn source(&self, span: Span) -> String {
        self.sources().slice(span).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn say(&mut self, level: usize, text: &str) {
        if self.lines == MOST_LINES {
            self.text += "… (there is more)\n";
        }
        self.lines += 1;
        if self.lines <= MOST_LINES {
            let _ = writeln!(self.text, "{}{text}", "  ".repeat(level));
        }
    }

    fn is_full(&self) -> bool {
        self.lines > MOST_LINES
    }

    /// Tells where an element of an array of the host came from.
    fn element(&mut self, array: &Array, name: &str, index: &[usize], level: usize) -> Answer<()> {
        let interpreter: &'a Interpreter = self.interpreter;
        let made = recorded(interpreter).iter().rev().find_map(|launch| Some((launch, launch.made(array)?)));
        let Some((launch, param)) = made else {
            let said = self.by_the_script(array, name, index);
            self.say(level, &said);
            return Ok(());
        };
        let prepared = self.prepared(launch)?;
        let (args, positions) = args_of(launch).map_err(|_| "there is not enough memory".to_string())?;
        let position = positions.get(param).copied().unwrap_or(0);
        let mut origins = self.origins(launch, &prepared, &args)?;
        let interrupted = |Interrupted| "interrupted".to_string();
        let end = origins.end().map_err(interrupted)?;
        let flat = index.iter().zip(array.shape()).fold(0, |flat, (at, extent)| flat * extent + at);
        let (own, layout) = array_of(&prepared, position).ok_or("the launch has no such array")?;
        for leaf in &layout.leaves {
            let path = if leaf.path.is_empty() { String::new() } else { format!(".{}", leaf.path) };
            let at: Vec<String> = index.iter().map(usize::to_string).collect();
            let spot = Spot {
                name: format!("{own}[{}]{path}", at.join(", ")),
                store: Store::Global(position),
                block: 0,
                thread: 0,
                offset: flat * layout.size + leaf.offset,
                ty: leaf.ty,
                before: end,
            };
            if own != name {
                let kernel = self.kernel_name(launch.kernel());
                let line = self.line(launch.span);
                self.say(level, &format!("{name} is `{own}` of `{kernel}`, launched at line {line}"));
            }
            let node = origins.written(&spot).map_err(interrupted)?;
            self.node(&mut origins, (launch, &prepared), &node, level)?;
        }
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
        let at: Vec<String> = index.iter().map(usize::to_string).collect();
        let element = format!("{name}[{}]", at.join(", "));
        match self.session.program.globals.iter().find(is_own) {
            Some((_, global)) => {
                let line = self.line(global.span);
                format!("{element}: no kernel wrote it; `{}` is made by the script at line {line}", global.name)
            }
            None => format!("{element}: no kernel wrote it"),
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

    fn node(&mut self, origins: &mut Origins<'_>, of: (&Recorded, &Prepared), node: &Node, level: usize) -> Answer<()> {
        self.node_as(origins, of, (node, None), level)
    }

    /// Tells what a node is, and what it was made of; of an element, with the expression that reads it.
    fn node_as(
        &mut self,
        origins: &mut Origins<'_>,
        (launch, prepared): (&Recorded, &Prepared),
        (node, read): (&Node, Option<&str>),
        level: usize,
    ) -> Answer<()> {
        if self.is_full() {
            return Ok(());
        }
        let interrupted = |Interrupted| "interrupted".to_string();
        let text = self.source(node.span);
        let value = node.value.as_ref().map(|val| format!(" = {}", shown(val))).unwrap_or_default();
        let head = match (self.name(node), read) {
            (Some(name), Some(read)) if name != read => format!("{read} is {name}{value}"),
            (Some(name), _) => format!("{name}{value}"),
            (None, _) if value == format!(" = {text}") => text.clone(),
            (None, _) if text.starts_with("threads(") => format!("an index{value}"),
            (None, _) => format!("{text}{value}"),
        };
        let line = self.line(node.span);
        match &node.source {
            Source::End(why) => {
                let said = if head.starts_with(why) { head } else { format!("{head}, {why}") };
                self.say(level, &said);
                return Ok(());
            }
            Source::Argument(position, spot) => {
                return self.argument((launch, prepared), (*position, spot), &head, level);
            }
            Source::Element(_) => {
                // The statement that wrote it says its name and its value.
                let parts = origins.parts(node).map_err(interrupted)?;
                let read = Some(text.as_str());
                return parts
                    .iter()
                    .try_for_each(|part| self.node_as(origins, (launch, prepared), (part, read), level));
            }
            Source::Operands(..) | Source::Update(..) => {
                let by = node.who.map(|who| format!(", {}", thread(&who))).unwrap_or_default();
                let said = match (self.name(node), &node.who) {
                    (Some(_), _) => format!("{head}: line {line}{by}: {}", self.statement(node.span)),
                    (None, Some(_)) => format!("{head}: line {line}{by}"),
                    (None, None) => head,
                };
                let sum = origins.sum(node).map_err(interrupted)?;
                if let Some(sum) = sum {
                    self.say(level, &format!("{said}, a sum of {} terms, of which the largest is", sum.count));
                    return self.node(origins, (launch, prepared), &sum.largest, level + 1);
                }
                self.say(level, &said);
            }
        }
        if level + 1 >= self.levels {
            self.say(level + 1, "…");
            return Ok(());
        }
        let parts = origins.parts(node).map_err(interrupted)?;
        // A statement's whole value says what the statement has said.
        let parts = match &parts[..] {
            [one] if one.name.is_none() && one.value == node.value && matches!(one.source, Source::Operands(..)) => {
                origins.parts(one).map_err(interrupted)?
            }
            _ => parts,
        };
        parts.iter().try_for_each(|part| self.node(origins, (launch, prepared), part, level + 1))
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
        (launch, prepared): (&Recorded, &Prepared),
        (position, spot): (usize, &Spot),
        head: &str,
        level: usize,
    ) -> Answer<()> {
        let (_, positions) = args_of(launch).map_err(|_| "there is not enough memory".to_string())?;
        let param = positions.iter().position(|at| *at == position);
        let line = self.line(launch.span);
        let known = param.and_then(|param| Some((param, launch.given.get(param)?)));
        let (Some((param, Value::Array(array))), Some((_, layout))) = (known, array_of(prepared, position)) else {
            self.say(level, &format!("{head}, as it was before the launch at line {line}"));
            return Ok(());
        };
        let place = launch.places.get(param).copied().flatten();
        let name = place.map_or(spot.name.clone(), |place| self.source(place));
        let said = format!("{head}, of the argument `{name}` of the launch at line {line}");
        self.say(level, &said);
        if !recorded(self.interpreter).iter().any(|launch| launch.made(array).is_some()) {
            return Ok(());
        }
        if level + 1 >= self.levels {
            self.say(level + 1, "…");
            return Ok(());
        }
        let mut rest = spot.offset / layout.size.max(1);
        let mut index = vec![];
        for &extent in array.shape().iter().rev() {
            index.insert(0, rest % extent.max(1));
            rest /= extent.max(1);
        }
        let array = array.clone();
        self.element(&array, &name, &index, level + 1)
    }
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
