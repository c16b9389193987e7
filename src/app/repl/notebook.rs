//! A session for notebooks, on a separate thread with a large stack.
//!
//! Input: cells, and queries about them (completion, inspection). Output: events for printed text, pictures and
//! diagnostics, the cell's value, and finally whether it succeeded.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;

use super::command_of_other_repls;
use super::commands;
use super::helper::LineHelper;
use super::keys::is_unfinished;
use super::state::Repl;
use super::transcript;
use crate::console::{Console, DisplaySink};
use crate::context::AppContext;
use crate::crash;
use crate::devices::{DeviceChoice, DeviceOptions, DeviceRegistry, GpuCodeOptions, VARIABLE};
use crate::disk::Disk;
use crate::embed::html;
use crate::embed::report::EmbedReport;
use crate::interrupt::Interrupt;
use crate::script::{RunLimits, ScriptDevices};
use crate::stack::{self, STACKS};
use clk_base::diag::Diagnostic;
use clk_base::escape;
use clk_base::source::{FileId, SourceMap, Span};
use clk_base::{stop, threads};
use clk_check::typed::{Global, NameBinding, Type};
use clk_host::picture::shown::ShownPicture;
use clk_host::value::HostValue;
use clk_ide::Analysis;
use clk_runtime::Isa;
use clk_runtime::LaunchProgress;
use clk_sim::Jit;

/// An event in the output of a cell.
#[derive(Debug)]
pub enum Event {
    Print(String),
    /// An error that has no code, such as that of an unknown command.
    Error(String),
    Report(Box<EmbedReport>),
    /// A picture: its MIME type, its content, and its text.
    Picture(&'static str, Vec<u8>, String),
    /// The value of the cell, its text, and HTML if that is easier to read than the text.
    Value(Box<HostValue>, String, Option<String>),
    /// The cell has finished: whether it succeeded, and the exit code if it has ended the session.
    Done(bool, Option<u8>),
}

/// A completion for a position in a cell.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub text: String,
    /// The byte offset at which the replaced text begins.
    pub start: usize,
}

/// Maximum number of queued events before the cell waits. Otherwise, a cell that prints quickly could fill the memory.
const AHEAD: usize = 256;

/// A request to the thread that runs the session.
enum Order {
    Run(String, SyncSender<Event>),
    Complete(String, usize, Sender<Vec<Candidate>>),
    Inspect(String, usize, Sender<Option<String>>),
    Set(String, HostValue, Sender<Result<(), NotebookError>>),
    Get(String, Sender<Option<HostValue>>),
    Program(String, Sender<Option<(String, PathBuf)>>),
}

/// Why a session does not start, or does not take a value.
#[derive(Debug, Error)]
pub enum NotebookError {
    #[error("the system refuses a thread for the session")]
    NoThread,
    #[error("the session has ended")]
    Ended,
    #[error("`{0}` cannot be the name of a variable")]
    Name(String),
    #[error("the session has no struct `{0}` with these fields")]
    NoStruct(String),
    #[error("a value of type `{0}` cannot be given to a session")]
    Type(String),
}

/// A session for a notebook. Dropping it ends its thread.
pub struct Notebook {
    orders: Sender<Order>,
    stop: stop::StopFlag,
    progress: Arc<Mutex<Arc<LaunchProgress>>>,
}

impl Notebook {
    /// Starts a session. If `checked`, launches are checked for races and similar errors.
    pub fn start(checked: bool) -> Result<Notebook, NotebookError> {
        let interrupt = Interrupt::default();
        let stop = interrupt.flag();
        let progress = Arc::<Mutex<Arc<LaunchProgress>>>::default();
        for size in STACKS {
            let (orders, inbox) = mpsc::channel();
            let (interrupt, shared) = (interrupt.clone(), progress.clone());
            let work = move || {
                let top = 0u8;
                stack::set_stack_end(std::ptr::from_ref(&top).addr().saturating_sub(size - size / 8));
                serve(&inbox, interrupt, checked, &shared);
            };
            let thread = std::thread::Builder::new().name("clk".into()).stack_size(size);
            if threads::with_signals_blocked(|| thread.spawn(work)).is_ok() {
                return Ok(Notebook { orders, stop, progress });
            }
        }
        Err(NotebookError::NoThread)
    }

    fn ask<T>(&self, order: impl FnOnce(Sender<T>) -> Order) -> Receiver<T> {
        let (answer, receiver) = mpsc::channel();
        // If the thread has ended, the caller sees it as a closed receiver.
        let _ = self.orders.send(order(answer));
        receiver
    }

    /// Runs a cell; [`Event::Done`] is its last event. The caller must keep receiving events, because the cell blocks
    /// when the queue is full.
    pub fn run(&self, cell: &str) -> Receiver<Event> {
        let (answer, receiver) = mpsc::sync_channel(AHEAD);
        // If the thread has ended, the caller sees it as a closed receiver.
        let _ = self.orders.send(Order::Run(cell.into(), answer));
        receiver
    }

    /// Returns the completions at a position of a cell, in bytes.
    pub fn complete(&self, cell: &str, position: usize) -> Vec<Candidate> {
        self.ask(|answer| Order::Complete(cell.into(), position, answer)).recv().unwrap_or_default()
    }

    /// Describes the name at a position of a cell, as Markdown.
    pub fn inspect(&self, cell: &str, position: usize) -> Option<String> {
        self.ask(|answer| Order::Inspect(cell.into(), position, answer)).recv().ok().flatten()
    }

    /// Whether a cell is incomplete and needs more lines.
    pub fn is_unfinished(cell: &str) -> bool {
        is_unfinished(cell)
    }

    /// Whether a cell has a syntax error. Cells with commands are not checked.
    pub fn is_invalid(cell: &str) -> bool {
        let has_command = cell.lines().any(|line| line.trim_start().starts_with([':', '?']));
        !has_command && clk_syntax::parse(FileId(0), cell).1.iter().any(Diagnostic::is_error)
    }

    /// Defines a variable.
    pub fn set(&self, name: &str, value: HostValue) -> Result<(), NotebookError> {
        let set = self.ask(|answer| Order::Set(name.into(), value, answer)).recv();
        set.unwrap_or(Err(NotebookError::Ended))
    }

    /// Returns the value of a variable.
    pub fn get(&self, name: &str) -> Option<HostValue> {
        self.ask(|answer| Order::Get(name.into(), answer)).recv().ok().flatten()
    }

    /// If `name` is a kernel or function, returns the definitions of the session as one program, and the folder for its
    /// imports.
    pub fn program_with(&self, name: &str) -> Option<(String, PathBuf)> {
        self.ask(|answer| Order::Program(name.into(), answer)).recv().ok().flatten()
    }

    /// Stops the cell that is running.
    pub fn interrupt(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Returns the number of thread groups of the current launch that have started, and their total number.
    pub fn progress(&self) -> (u64, u64) {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (progress.started.load(Ordering::Relaxed), progress.total.load(Ordering::Relaxed))
    }
}

/// Sends the output of the running cell to the caller that started it.
#[derive(Default)]
struct Sent {
    to: Mutex<Option<SyncSender<Event>>>,
    failed: std::sync::atomic::AtomicBool,
}

impl Sent {
    fn send(&self, event: Event) {
        if let Some(to) = &*self.to.lock().unwrap_or_else(PoisonError::into_inner) {
            // The receiver may have been dropped.
            let _ = to.send(event);
        }
    }

    fn aim(&self, to: Option<SyncSender<Event>>) {
        self.failed.store(false, Ordering::Relaxed);
        *self.to.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }
}

impl DisplaySink for Sent {
    fn print(&self, text: &str) {
        self.send(Event::Print(text.into()));
    }

    fn error(&self, lines: &str) {
        self.failed.store(true, Ordering::Relaxed);
        self.send(Event::Error(lines.into()));
    }

    fn report(&self, diagnostic: &Diagnostic, sources: &SourceMap) {
        if diagnostic.is_error() {
            self.failed.store(true, Ordering::Relaxed);
        }
        self.send(Event::Report(Box::new(EmbedReport::new(diagnostic, sources))));
    }

    fn show(&self, shown: &ShownPicture) {
        self.send(match shown.file() {
            Ok((kind, content, text)) => Event::Picture(kind, content, text),
            Err(problem) => Event::Report(Box::new(EmbedReport::of(problem))),
        });
    }

    fn value(&self, value: &HostValue, text: &str) {
        let text = match value {
            // A string may come from a file, so control sequences are escaped.
            HostValue::Str(text) => escape::lines(text).into_owned(),
            _ => text.into(),
        };
        let html = html::of(value).unwrap_or_default();
        self.send(Event::Value(Box::new(value.clone()), text, html));
    }
}

/// Serves a session until the `Notebook` is dropped.
fn serve(inbox: &Receiver<Order>, interrupt: Interrupt, checked: bool, progress: &Mutex<Arc<LaunchProgress>>) {
    let stage = Arc::<Sent>::default();
    interrupt.be_patient(u32::MAX);
    let machine = DeviceRegistry::new(DeviceOptions::default());
    let named = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty());
    let choice = named.and_then(|name| name.parse().ok()).unwrap_or(if checked {
        DeviceChoice::Sim(None)
    } else {
        DeviceChoice::Auto
    });
    // If the device cannot be opened, the simulator is used.
    let device = machine.choose(choice).or_else(|_| machine.choose(DeviceChoice::Sim(None))).ok();
    let places = ScriptDevices { device, all: Some(machine.clone()) };
    let limits = RunLimits { check: Some(checked), places, ..RunLimits::default() };
    let mut context = AppContext {
        console: Console::staged(stage.clone()),
        interrupt,
        limits,
        text: GpuCodeOptions::default(),
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
                if let Err(panic) = crash::catch_panic(|| repl.cell(&cell, &failed)) {
                    stage.report(&panic, &SourceMap::default());
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
    /// Runs a cell. Each command is a line, and the text between two commands is one entry. The rest of the cell is
    /// skipped after a failure.
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
        let text = match command_of_other_repls(text.trim()).filter(|(word, _)| self.binding(word).is_none()) {
            Some((_, command)) => format!(":{command}"),
            None => text.to_string(),
        };
        let word = text.trim().strip_prefix(':').and_then(|command| command.split_whitespace().next());
        match word.and_then(|word| commands::find(word).ok()).map(|command| command.name) {
            Some("quit") => self.ended = Some(crate::exit::OK),
            Some("edit") => {
                self.context.console.error_line("`:edit` opens an editor, for which there is no terminal here");
            }
            _ => drop(self.enter(text.trim_end())),
        }
    }

    fn completions(&self, cell: &str, position: usize) -> Vec<Candidate> {
        let mut helper = LineHelper::new(false);
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
        // Values of variables are in the session but not in the analysis of the cell.
        if let Some(NameBinding::Global(_)) = self.binding(word) {
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

    fn define(&mut self, name: &str, value: HostValue) -> Result<(), NotebookError> {
        // Declares the variable by an entry, so that invalid names are rejected as in the language.
        let text = format!("var {name} = 0\n");
        let before = self.session.snapshot();
        let entered = self.session.enter_after(&before, "<shared>", &text, &Disk);
        let global = match self.binding(name) {
            Some(NameBinding::Global(id)) if !entered.outcome.failed() => id,
            _ => {
                self.session.restore(&before);
                return Err(NotebookError::Name(name.into()));
            }
        };
        let ty = match &value {
            HostValue::Array(array) => match self.interpreter.element_type(array.element()) {
                Type::Unknown => Err(NotebookError::NoStruct(array.element().to_string())),
                element => Ok(crate::launch::compiled_launch::array_type(element, array.rank())),
            },
            HostValue::Scalar(number) => Ok(Type::Scalar(number.ty)),
            HostValue::Str(_) => Ok(Type::Str),
            other => Err(NotebookError::Type(other.type_name())),
        };
        let ty = match ty {
            Ok(ty) => ty,
            Err(why) => {
                self.session.restore(&before);
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
            NameBinding::Kernel(_) | NameBinding::Fn(_) => {
                let folder = self.session.folder.clone();
                Some((transcript::definitions(&self.log, &folder.join("session.clk")), folder))
            }
            _ => None,
        }
    }

    fn named_value(&self, name: &str) -> Option<HostValue> {
        match self.binding(name)? {
            NameBinding::Global(id) => self.interpreter.globals.get(id.index())?.clone(),
            _ => None,
        }
    }
}
