//! A session for notebooks, on a thread of its own with a large stack.
//!
//! Input: cells, and questions about them (completion, inspection). Output: events in order: what was printed, shown and reported, the
//! cell's value, and at last whether it succeeded.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};

use super::command_elsewhere;
use super::commands;
use super::helper::Entry;
use super::keys::is_unfinished;
use super::state::Repl;
use super::transcript;
use crate::app::console::{Console, Stage};
use crate::app::context::Context;
use crate::app::crash;
use crate::app::devices::{Choice, Machine, Usage, VARIABLE};
use crate::app::disk::Disk;
use crate::app::embed::html;
use crate::app::embed::report::Report;
use crate::app::interrupt::Interrupt;
use crate::app::script::{Limits, Places};
use crate::app::stack::{self, STACKS};
use crate::base::diag::Diagnostic;
use crate::base::escape;
use crate::base::source::{FileId, Sources, Span};
use crate::base::{stop, threads};
use crate::check::typed::{Binding, Global, Type};
use crate::device::Progress;
use crate::device::cuda::text::Options;
use crate::device::sim::{Isa, Jit};
use crate::host::interp::Shown;
use crate::host::picture::shown::file;
use crate::host::value::Value;
use crate::ide::Analysis;
use crate::syntax;

/// Something that a cell gives, in order.
#[derive(Debug)]
pub enum Event {
    Print(String),
    /// An error that has no code, such as that of an unknown command.
    Error(String),
    Report(Box<Report>),
    /// A picture: its MIME type, its content, and its text.
    Picture(&'static str, Vec<u8>, String),
    /// The value of the cell, its text, and HTML where that shows it better.
    Value(Box<Value>, String, Option<String>),
    /// The cell is over: whether it succeeded, and the exit code if it has ended the session.
    Done(bool, Option<u8>),
}

/// A completion.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub text: String,
    /// Where the text begins that it replaces, in bytes.
    pub start: usize,
}

/// How many events wait to be taken before the cell waits: one that prints faster than a notebook shows would fill the memory.
const AHEAD: usize = 256;

/// What the thread is asked for.
enum Order {
    Run(String, SyncSender<Event>),
    Complete(String, usize, Sender<Vec<Candidate>>),
    Inspect(String, usize, Sender<Option<String>>),
    Set(String, Value, Sender<Result<(), String>>),
    Get(String, Sender<Option<Value>>),
    Program(String, Sender<Option<(String, PathBuf)>>),
}

/// A session. Dropping it ends its thread.
pub struct Notebook {
    orders: Sender<Order>,
    stop: stop::Flag,
    progress: Arc<Mutex<Arc<Progress>>>,
}

impl Notebook {
    /// Starts a session; `checked` has its runs look for races and the like.
    pub fn start(checked: bool) -> Result<Notebook, String> {
        let interrupt = Interrupt::default();
        let stop = interrupt.flag();
        let progress = Arc::<Mutex<Arc<Progress>>>::default();
        for size in STACKS {
            let (orders, inbox) = mpsc::channel();
            let (interrupt, shared) = (interrupt.clone(), progress.clone());
            let work = move || {
                let top = 0u8;
                stack::set_end(std::ptr::from_ref(&top).addr().saturating_sub(size - size / 8));
                serve(&inbox, interrupt, checked, &shared);
            };
            let thread = std::thread::Builder::new().name("clk".into()).stack_size(size);
            if threads::deaf(|| thread.spawn(work)).is_ok() {
                return Ok(Notebook { orders, stop, progress });
            }
        }
        Err("the system refuses a thread for the session".into())
    }

    fn ask<T>(&self, order: impl FnOnce(Sender<T>) -> Order) -> Receiver<T> {
        let (answer, receiver) = mpsc::channel();
        // If the thread has ended, the receiver says so.
        let _ = self.orders.send(order(answer));
        receiver
    }

    /// Runs a cell; its events, which the caller has to take for it to go on, end with [`Event::Done`].
    pub fn run(&self, cell: &str) -> Receiver<Event> {
        let (answer, receiver) = mpsc::sync_channel(AHEAD);
        // If the thread has ended, the receiver says so.
        let _ = self.orders.send(Order::Run(cell.into(), answer));
        receiver
    }

    /// Returns the completions at a position of a cell, in bytes.
    pub fn complete(&self, cell: &str, position: usize) -> Vec<Candidate> {
        self.ask(|answer| Order::Complete(cell.into(), position, answer)).recv().unwrap_or_default()
    }

    /// Returns what is known of the name at a position of a cell, as Markdown.
    pub fn inspect(&self, cell: &str, position: usize) -> Option<String> {
        self.ask(|answer| Order::Inspect(cell.into(), position, answer)).recv().ok().flatten()
    }

    /// Whether a cell needs more lines.
    pub fn is_unfinished(cell: &str) -> bool {
        is_unfinished(cell)
    }

    /// Whether a cell has an error of syntax. Cells with commands are not looked at.
    pub fn is_invalid(cell: &str) -> bool {
        let has_command = cell.lines().any(|line| line.trim_start().starts_with([':', '?']));
        !has_command && syntax::parse(FileId(0), cell).1.iter().any(Diagnostic::is_error)
    }

    /// Defines a variable.
    pub fn set(&self, name: &str, value: Value) -> Result<(), String> {
        let set = self.ask(|answer| Order::Set(name.into(), value, answer)).recv();
        set.unwrap_or_else(|_| Err("the session has ended".into()))
    }

    /// Returns the value of a variable.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.ask(|answer| Order::Get(name.into(), answer)).recv().ok().flatten()
    }

    /// Returns the definitions of the session as a program, and the folder of its imports, if this is the name of a kernel or function.
    pub fn program_with(&self, name: &str) -> Option<(String, PathBuf)> {
        self.ask(|answer| Order::Program(name.into(), answer)).recv().ok().flatten()
    }

    /// Stops the cell that is running.
    pub fn interrupt(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Returns how many groups of threads of the current launch have started, and of how many.
    pub fn progress(&self) -> (u64, u64) {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (progress.begun.load(Ordering::Relaxed), progress.of.load(Ordering::Relaxed))
    }
}

/// Sends what a cell gives to whoever waits for it.
#[derive(Default)]
struct Sent {
    to: Mutex<Option<SyncSender<Event>>>,
    failed: std::sync::atomic::AtomicBool,
}

impl Sent {
    fn send(&self, event: Event) {
        if let Some(to) = &*self.to.lock().unwrap_or_else(PoisonError::into_inner) {
            // Nobody waits any more.
            let _ = to.send(event);
        }
    }

    fn aim(&self, to: Option<SyncSender<Event>>) {
        self.failed.store(false, Ordering::Relaxed);
        *self.to.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }
}

impl Stage for Sent {
    fn print(&self, text: &str) {
        self.send(Event::Print(text.into()));
    }

    fn error(&self, lines: &str) {
        self.failed.store(true, Ordering::Relaxed);
        self.send(Event::Error(lines.into()));
    }

    fn report(&self, diagnostic: &Diagnostic, sources: &Sources) {
        if diagnostic.is_error() {
            self.failed.store(true, Ordering::Relaxed);
        }
        self.send(Event::Report(Box::new(Report::new(diagnostic, sources))));
    }

    fn show(&self, shown: &Shown) {
        self.send(match file(shown) {
            Ok((kind, content, text)) => Event::Picture(kind, content, text),
            Err(problem) => Event::Report(Box::new(Report::of(problem))),
        });
    }

    fn value(&self, value: &Value, text: &str) {
        let text = match value {
            // A text may come from a file.
            Value::Str(text) => escape::lines(text).into_owned(),
            _ => text.into(),
        };
        let html = html::of(value).unwrap_or_default();
        self.send(Event::Value(Box::new(value.clone()), text, html));
    }
}

/// Serves a session until its owner is gone.
fn serve(inbox: &Receiver<Order>, interrupt: Interrupt, checked: bool, progress: &Mutex<Arc<Progress>>) {
    let stage = Arc::<Sent>::default();
    interrupt.be_patient(u32::MAX);
    let machine = Machine::new(Usage::default());
    let named = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty());
    let choice =
        named.and_then(|name| name.parse().ok()).unwrap_or(if checked { Choice::Sim(None) } else { Choice::Auto });
    // A device that cannot be opened is reported by the first launch of `:device`.
    let device = machine.choose(choice).or_else(|_| machine.choose(Choice::Sim(None))).ok();
    let places = Places { device, all: Some(machine.clone()) };
    let limits = Limits { check: Some(checked), places, ..Limits::default() };
    let mut context = Context {
        console: Console::staged(stage.clone()),
        interrupt,
        limits,
        text: Options::default(),
        machine,
        device: choice,
        isa: Isa::default(),
        jit: Jit::default(),
    };
    let mut repl = Repl::new(&mut context);
    for order in inbox {
        match order {
            Order::Run(cell, answer) => {
                stage.aim(Some(answer));
                *progress.lock().unwrap_or_else(PoisonError::into_inner) =
                    repl.interpreter.options.control.progress.clone();
                let failed = || stage.failed.load(Ordering::Relaxed);
                if let Err(panic) = crash::survived(|| repl.cell(&cell, &failed)) {
                    stage.report(&panic, &Sources::default());
                }
                let done = Event::Done(!failed(), repl.ended.take());
                stage.send(done);
                stage.aim(None);
            }
            Order::Complete(cell, position, answer) => drop(answer.send(repl.completions(&cell, position))),
            Order::Inspect(cell, position, answer) => drop(answer.send(repl.inspection(&cell, position))),
            Order::Set(name, value, answer) => drop(answer.send(repl.define(&name, value))),
            Order::Get(name, answer) => drop(answer.send(repl.named_value(&name))),
            Order::Program(name, answer) => drop(answer.send(repl.program_with(&name))),
        }
    }
}

impl Repl<'_> {
    /// Runs a cell: commands are lines of their own, everything between them is one entry. What follows a failure is not run.
    fn cell(&mut self, cell: &str, failed: &dyn Fn() -> bool) {
        let mut part = |text: &str| {
            if !failed() && self.ended.is_none() && !text.trim().is_empty() {
                self.part(text);
            }
        };
        let mut entry = String::new();
        for line in cell.lines() {
            let begins =
                line.trim_start().starts_with([':', '?']) && (entry.trim().is_empty() || !is_unfinished(&entry));
            if !begins {
                entry += line;
                entry.push('\n');
                continue;
            }
            part(&std::mem::take(&mut entry));
            part(line);
        }
        part(&entry);
    }

    /// Runs an entry or a command.
    fn part(&mut self, text: &str) {
        let text = match command_elsewhere(text.trim()).filter(|(word, _)| self.binding(word).is_none()) {
            Some((_, command)) => format!(":{command}"),
            None => text.to_string(),
        };
        let word = text.trim().strip_prefix(':').and_then(|command| command.split_whitespace().next());
        match word.and_then(|word| commands::find(word).ok()).map(|command| command.name) {
            Some("quit") => self.ended = Some(crate::app::exit::OK),
            Some("edit") => {
                self.context.console.error_line("`:edit` opens an editor, for which there is no terminal here");
            }
            _ => drop(self.enter(text.trim_end())),
        }
    }

    fn completions(&self, cell: &str, position: usize) -> Vec<Candidate> {
        let mut helper = Entry::new(false);
        helper.follow(&self.session, &self.settings);
        let found = helper.at(cell, position);
        let (start, pairs) = found.unwrap_or_default();
        pairs.into_iter().map(|pair| Candidate { text: pair.replacement, start }).collect()
    }

    fn inspection(&mut self, cell: &str, position: usize) -> Option<String> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let before = cell.get(..position)?;
        let start =
            before.rfind(|c| !is_word(c)).map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let end = cell[position..].find(|c| !is_word(c)).map_or(cell.len(), |at| position + at);
        let word = cell.get(start..end).filter(|word| !word.is_empty())?;
        // Values are known only to the session.
        if let Some(Binding::Global(_)) = self.binding(word) {
            return self.info(word).ok().map(|text| format!("```clk\n{text}```"));
        }
        let analysis = Analysis::after(self.session.clone(), "<cell>", cell, &Disk);
        if let Some(hover) = analysis.hover(position.min(end.saturating_sub(1)).max(start)) {
            return Some(hover.text);
        }
        let color = std::mem::replace(&mut self.context.console.style.color, false);
        let page = self.doc(word);
        self.context.console.style.color = color;
        page.ok()
    }

    fn define(&mut self, name: &str, value: Value) -> Result<(), String> {
        // An entry of this form makes the name, so that the rules for names are the language's.
        let text = format!("var {name} = 0\n");
        let before = self.session.clone();
        let entered = self.session.enter("<shared>", &text, &Disk);
        let global = match self.binding(name) {
            Some(Binding::Global(id)) if !entered.outcome.failed() => id,
            _ => {
                self.session = before;
                return Err(format!("`{name}` cannot be the name of a variable"));
            }
        };
        let ty = match &value {
            Value::Array(array) => match self.interpreter.element_type(array.element()) {
                Type::Unknown => Err(format!("the session has no struct `{}` with these fields", array.element())),
                element => Ok(crate::app::launch::form::array_type(element, array.rank())),
            },
            Value::Scalar(number) => Ok(Type::Scalar(number.ty)),
            Value::Str(_) => Ok(Type::Str),
            other => Err(format!("a value of type `{}` cannot be given to a session", other.type_name())),
        };
        let ty = match ty {
            Ok(ty) => ty,
            Err(why) => {
                self.session = before;
                return Err(why);
            }
        };
        self.session.program.globals[global] = Global { name: name.into(), ty, mutable: true, span: Span::default() };
        self.interpreter.globals.resize(self.session.program.globals.len(), None);
        self.interpreter.globals[global.index()] = Some(value);
        self.release();
        Ok(())
    }

    fn program_with(&self, name: &str) -> Option<(String, PathBuf)> {
        match self.binding(name)? {
            Binding::Kernel(_) | Binding::Fn(_) => {
                let folder = self.session.folder.clone();
                Some((transcript::definitions(&self.log, &folder.join("session.clk")), folder))
            }
            _ => None,
        }
    }

    fn named_value(&self, name: &str) -> Option<Value> {
        match self.binding(name)? {
            Binding::Global(id) => self.interpreter.globals.get(id.index())?.clone(),
            _ => None,
        }
    }
}
