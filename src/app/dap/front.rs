//! The editor as the place where the user sits: answers requests while the program stands, and says where it stands.

use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::points;
use super::variables::{self, Refs, look_at, thread_id};
use super::wire::{Request, Wire};
use crate::app::debug::device::{Front, Wish};
use crate::app::debug::frame::Held;
use crate::app::debug::seek::{Goal, Stop};
use crate::app::debug::session::{Arrival, Debug, Settings, Way};
use crate::app::debug::show;
use crate::app::interrupt::Interrupt;
use crate::base::source::FileId;
use crate::device::fault_diagnostic;

/// What the thread that reads requests and the one that runs the program both know.
#[derive(Clone, Default)]
pub(super) struct Shared(Arc<Mutex<Traffic>>);

#[derive(Default)]
struct Traffic {
    /// A launch runs, step by step or on another device.
    runs: bool,
    /// The client has asked for a pause, and nothing has stopped yet.
    pause: bool,
    /// The client wants no more.
    ends: bool,
}

impl Shared {
    fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Interrupts the launch that runs, or the next one.
    pub fn ask_pause(&self, interrupt: &Interrupt) {
        let mut traffic = self.traffic();
        traffic.pause = true;
        if traffic.runs {
            interrupt.flag().store(true, Ordering::SeqCst);
        }
    }

    /// Interrupts the program.
    pub fn ask_end(&self, interrupt: &Interrupt) {
        self.traffic().ends = true;
        interrupt.flag().store(true, Ordering::SeqCst);
    }

    fn begin(&self, interrupt: &Interrupt) {
        let mut traffic = self.traffic();
        traffic.runs = true;
        if traffic.pause || traffic.ends {
            interrupt.flag().store(true, Ordering::SeqCst);
        }
    }

    /// A pause interrupts the launch only, and not the script.
    fn end(&self, interrupt: &Interrupt) {
        let mut traffic = self.traffic();
        traffic.runs = false;
        if traffic.pause && !traffic.ends {
            interrupt.clear();
        }
    }

    /// Returns whether a pause was asked for, and forgets it.
    fn take_pause(&self) -> bool {
        let mut traffic = self.traffic();
        std::mem::take(&mut traffic.pause) && !traffic.ends
    }
}

pub(super) struct Editor {
    pub wire: Wire,
    pub requests: Receiver<Request>,
    pub shared: Shared,
    pub interrupt: Interrupt,
    pub refs: Refs,
    /// Stop at the first statement of each launch.
    pub stop_on_entry: bool,
    pub has_begun: bool,
    /// The client wants no more.
    pub is_over: bool,
}

/// What follows a request.
enum Next {
    Stay,
    /// The program has moved.
    Moved,
    GoOn,
    Quit,
}

impl Editor {
    /// Answers a request that needs no launch; `None` if it needs one.
    fn outside(&mut self, request: &Request, settings: &mut Settings) -> Option<Result<Value, String>> {
        Some(match request.command.as_str() {
            "setBreakpoints" => points::lines(request, settings),
            "setFunctionBreakpoints" => Ok(points::functions(request, settings)),
            "setDataBreakpoints" => Ok(points::data(request, settings)),
            "setExceptionBreakpoints" => Ok(points::exceptions(request, settings)),
            "dataBreakpointInfo" => Ok(variables::data_info(request, &self.refs)),
            "source" => {
                let id = request
                    .number("sourceReference")
                    .or_else(|| request.arguments.pointer("/source/sourceReference")?.as_i64());
                let file = id.and_then(|id| u32::try_from(id).ok()?.checked_sub(1));
                match file.filter(|&file| (file as usize) < settings.session.sources.len()) {
                    Some(file) => Ok(json!({ "content": settings.session.sources.text(FileId(file)) })),
                    None => Err("there is no such source".into()),
                }
            }
            "loadedSources" => Ok(json!({ "sources": [] })),
            _ => return None,
        })
    }

    /// Answers a request in a launch.
    fn inside(&mut self, request: &Request, debug: &mut Debug<'_, '_>) -> Next {
        if let Some(result) = self.outside(request, debug.settings) {
            self.wire.answer(request, result);
            return Next::Stay;
        }
        let refs = &mut self.refs;
        let result = match request.command.as_str() {
            "threads" => Ok(variables::threads(debug)),
            "stackTrace" => variables::calls(request, debug, refs),
            "scopes" => variables::scopes(request, debug, refs),
            "variables" => variables::variables(request, debug, refs),
            "evaluate" => evaluate(request, debug, refs),
            "exceptionInfo" => Ok(exception(debug)),
            "pause" => {
                // It stands already.
                self.shared.take_pause();
                Ok(Value::Null)
            }
            "continue" | "reverseContinue" | "next" | "stepIn" | "stepOut" | "stepBack" => {
                return self.moved(request, debug);
            }
            "disconnect" | "terminate" => {
                self.is_over = true;
                self.wire.answer(request, Ok(Value::Null));
                return Next::Quit;
            }
            other => Err(format!("`{other}` is not supported")),
        };
        self.wire.answer(request, result);
        Next::Stay
    }

    fn moved(&mut self, request: &Request, debug: &mut Debug<'_, '_>) -> Next {
        let verb = request.command.as_str();
        if !matches!(verb, "continue" | "reverseContinue")
            && let Err(why) = look_at(request, debug)
        {
            self.wire.answer(request, Err(why));
            return Next::Stay;
        }
        let body = if verb == "continue" { json!({ "allThreadsContinued": true }) } else { Value::Null };
        self.wire.answer(request, Ok(body));
        self.refs.clear();
        let is_forward = !matches!(verb, "reverseContinue" | "stepBack");
        if is_forward && debug.timeline.is_at_end() || verb == "continue" && debug.is_untouched() {
            return Next::GoOn;
        }
        self.steps(|| match verb {
            "continue" => debug.go(Way::Forward, Goal::Nothing),
            "reverseContinue" => debug.go(Way::Backward, Goal::Nothing),
            "next" => debug.next(Way::Forward),
            "stepIn" => debug.step(Way::Forward),
            "stepOut" => debug.finish(Way::Forward),
            _ => debug.next(Way::Backward),
        });
        if debug.arrival == Arrival::End && verb == "continue" { Next::GoOn } else { Next::Moved }
    }

    /// Runs step by step: a pause stops it.
    fn steps(&self, run: impl FnOnce()) {
        self.interrupt.clear();
        self.shared.begin(&self.interrupt);
        run();
        self.shared.end(&self.interrupt);
        self.shared.take_pause();
        // Wherever it stands, requests are read next.
        self.interrupt.clear();
    }

    /// Tells where the program stands.
    fn stopped(&self, debug: &Debug<'_, '_>) {
        let (reason, text) = match &debug.arrival {
            Arrival::Start => ("entry", String::new()),
            Arrival::Stop(Stop::Point(_)) => ("breakpoint", String::new()),
            Arrival::Stop(Stop::Write(_, write)) => {
                let indices: Vec<String> = write.indices.iter().map(usize::to_string).collect();
                ("data breakpoint", format!("{}[{}]{} was written", write.array, indices.join(", "), write.part))
            }
            Arrival::Stop(Stop::Nan(..)) => ("exception", "NaN was computed".into()),
            Arrival::Stop(Stop::Refused(_, why)) => ("breakpoint", why.clone()),
            Arrival::Stop(Stop::Goal) => ("step", String::new()),
            Arrival::Fault(fault) => ("exception", fault_diagnostic(fault).title),
            Arrival::End => ("step", "the launch is over".into()),
            Arrival::Interrupted => ("pause", String::new()),
        };
        let mut body = json!({
            "reason": reason, "threadId": thread_id(debug.focus.block, debug.focus.thread), "allThreadsStopped": true,
            "description": show::arrival(debug).lines().next().unwrap_or_default(),
        });
        if !text.is_empty() {
            body["text"] = json!(text);
        }
        if let Arrival::Stop(Stop::Point(id) | Stop::Write(id, _) | Stop::Nan(id, ..) | Stop::Refused(id, _)) =
            &debug.arrival
        {
            body["hitBreakpointIds"] = json!([id]);
        }
        self.wire.event("stopped", body);
    }
}

fn evaluate(request: &Request, debug: &mut Debug<'_, '_>, refs: &mut Refs) -> Result<Value, String> {
    refs.look(request, debug)?;
    let text = request.text("expression").unwrap_or_default().trim().to_string();
    if text.is_empty() {
        return Err("there is no expression to evaluate".into());
    }
    let focus = debug.focus;
    let name = debug.names().into_iter().find(|(name, _)| name.name == text);
    if let Some((name, held @ Held::Array(_))) = name {
        let mut found = variables::named(debug, refs, focus, &name.name, &held);
        found["result"] = found["value"].take();
        if let Some(found) = found.as_object_mut() {
            found
                .retain(|key, _| matches!(key.as_str(), "result" | "type" | "variablesReference" | "indexedVariables"));
        }
        return Ok(found);
    }
    if let Some((_, held)) = name {
        return Ok(json!({ "result": show::held_text(debug, &held), "variablesReference": 0 }));
    }
    Ok(json!({ "result": debug.value(&text)?, "variablesReference": 0 }))
}

fn exception(debug: &Debug<'_, '_>) -> Value {
    match &debug.arrival {
        Arrival::Fault(fault) => {
            let diagnostic = fault_diagnostic(fault);
            json!({ "exceptionId": diagnostic.code, "description": diagnostic.title, "breakMode": "always" })
        }
        Arrival::Stop(Stop::Nan(..)) => {
            json!({ "exceptionId": "NaN", "description": "NaN was computed", "breakMode": "always" })
        }
        _ => json!({ "exceptionId": "none", "breakMode": "never" }),
    }
}

impl Front for Editor {
    fn between(&mut self, settings: &mut Settings) -> bool {
        if self.is_over {
            return false;
        }
        if self.has_begun {
            self.wire.event("terminated", json!({}));
        }
        while let Ok(request) = self.requests.recv() {
            if let Some(result) = self.outside(&request, settings) {
                self.wire.answer(&request, result);
                continue;
            }
            let result = match request.command.as_str() {
                "configurationDone" if !self.has_begun => {
                    self.has_begun = true;
                    settings.stop_at_launch = self.stop_on_entry;
                    self.wire.answer(&request, Ok(Value::Null));
                    return true;
                }
                "threads" => Ok(json!({ "threads": [] })),
                "pause" => Ok(Value::Null),
                "disconnect" | "terminate" => {
                    self.wire.answer(&request, Ok(Value::Null));
                    return false;
                }
                other => Err(format!("`{other}` needs a kernel that has stopped")),
            };
            self.wire.answer(&request, result);
        }
        false
    }

    fn launch(&mut self, debug: &mut Debug<'_, '_>) -> Wish {
        let paused = self.shared.take_pause();
        let at_launch = std::mem::take(&mut debug.settings.stop_at_launch) || paused;
        if debug.arrival == Arrival::Start && !at_launch {
            self.steps(|| debug.go(Way::Forward, Goal::Nothing));
        }
        if debug.arrival == Arrival::End {
            return Wish::GoOn;
        }
        self.refs.clear();
        self.stopped(debug);
        while let Ok(request) = self.requests.recv() {
            match self.inside(&request, debug) {
                Next::Stay => {}
                Next::Moved => self.stopped(debug),
                Next::GoOn => return Wish::GoOn,
                Next::Quit => return Wish::Quit,
            }
        }
        self.is_over = true;
        Wish::Quit
    }

    fn runs_freely(&mut self, is_running: bool) {
        if is_running { self.shared.begin(&self.interrupt) } else { self.shared.end(&self.interrupt) }
    }

    fn is_paused(&mut self) -> bool {
        self.shared.take_pause()
    }

    fn note(&mut self, text: &str) {
        self.wire.output("console", &format!("note: {text}\n"));
    }

    fn is_again(&self) -> bool {
        false
    }
}
