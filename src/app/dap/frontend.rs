//! The debugger's front end for editors: answers requests while the program is stopped, and reports each stop.

use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::breakpoints;
use super::variables::{self, VariableRefs, focus_thread, thread_id};
use super::wire::{DapRequest, DapWire};
use crate::command_error::CommandResult;
use crate::debug::device::{DebugContinuation, DebuggerFrontEnd};
use crate::debug::frame::NamedContents;
use crate::debug::session::{Debug, DebugSettings, SearchDirection, StopLocation};
use crate::debug::show;
use crate::debug::stop_search::{Goal, StopReason};
use crate::interrupt::Interrupt;
use clk_base::source::FileId;
use clk_runtime::fault_title;

/// State shared by the thread that reads requests and the thread that runs the program.
#[derive(Clone, Default)]
pub(super) struct SharedTraffic(Arc<Mutex<FrontState>>);

#[derive(Default)]
struct FrontState {
    /// Whether a launch is running, in the stepper or on another device.
    runs: bool,
    /// Whether the client has requested a pause that has not taken effect yet.
    pause: bool,
    /// Whether the client has asked to end the session.
    ends: bool,
}

impl SharedTraffic {
    fn traffic(&self) -> MutexGuard<'_, FrontState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests a pause of the running launch. If no launch is running, the next one pauses at its start.
    pub fn ask_pause(&self, interrupt: &Interrupt) {
        let mut traffic = self.traffic();
        traffic.pause = true;
        if traffic.runs {
            interrupt.flag().store(true, Ordering::SeqCst);
        }
    }

    /// Requests the end of the session, which interrupts the program even between launches.
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

    /// Records that the launch has ended. Clears the interrupt of a pause, which applies to launches but not to the
    /// script.
    fn end(&self, interrupt: &Interrupt) {
        let mut traffic = self.traffic();
        traffic.runs = false;
        if traffic.pause && !traffic.ends {
            interrupt.clear();
        }
    }

    /// Returns whether a pause was requested, and clears the request.
    fn take_pause(&self) -> bool {
        let mut traffic = self.traffic();
        std::mem::take(&mut traffic.pause) && !traffic.ends
    }
}

pub(super) struct EditorFrontEnd {
    pub wire: DapWire,
    pub requests: Receiver<DapRequest>,
    pub shared: SharedTraffic,
    pub interrupt: Interrupt,
    pub refs: VariableRefs,
    /// Whether to stop at the first statement of each launch.
    pub stop_on_entry: bool,
    pub has_begun: bool,
    /// Whether the client has asked to end the session.
    pub is_over: bool,
}

/// What the front end does after it has answered a request in a launch.
enum AfterRequest {
    Stay,
    /// The program has moved to another location, so the client needs a new `stopped` event.
    Moved,
    GoOn,
    Quit,
}

impl EditorFrontEnd {
    /// Answers a request that needs no stopped launch; returns `None` for all other requests.
    fn answer_outside_launch(
        &mut self,
        request: &DapRequest,
        settings: &mut DebugSettings,
    ) -> Option<CommandResult<Value>> {
        Some(match request.command.as_str() {
            "setBreakpoints" => Ok(breakpoints::set_line_breakpoints(request, settings)),
            "setFunctionBreakpoints" => Ok(breakpoints::set_function_breakpoints(request, settings)),
            "setDataBreakpoints" => Ok(breakpoints::set_data_breakpoints(request, settings)),
            "setExceptionBreakpoints" => Ok(breakpoints::set_exception_filters(request, settings)),
            "dataBreakpointInfo" => Ok(variables::data_breakpoint_info(request, &self.refs)),
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

    /// Answers a request while a launch is stopped.
    fn answer_in_launch(&mut self, request: &DapRequest, debug: &mut Debug<'_, '_>) -> AfterRequest {
        if let Some(result) = self.answer_outside_launch(request, debug.settings) {
            self.wire.answer(request, result);
            return AfterRequest::Stay;
        }
        let refs = &mut self.refs;
        let result = match request.command.as_str() {
            "threads" => Ok(variables::threads(debug)),
            "stackTrace" => variables::stack_trace(request, debug, refs),
            "scopes" => variables::scopes(request, debug, refs),
            "variables" => variables::variables(request, debug, refs),
            "evaluate" => evaluate(request, debug, refs),
            "exceptionInfo" => Ok(exception(debug)),
            "pause" => {
                // The program is already stopped, so the pause has no further effect.
                self.shared.take_pause();
                Ok(Value::Null)
            }
            "continue" | "reverseContinue" | "next" | "stepIn" | "stepOut" | "stepBack" => {
                return self.perform_move(request, debug);
            }
            "disconnect" | "terminate" => {
                self.is_over = true;
                self.wire.answer(request, Ok(Value::Null));
                return AfterRequest::Quit;
            }
            other => Err(format!("`{other}` is not supported").into()),
        };
        self.wire.answer(request, result);
        AfterRequest::Stay
    }

    fn perform_move(&mut self, request: &DapRequest, debug: &mut Debug<'_, '_>) -> AfterRequest {
        let verb = request.command.as_str();
        if !matches!(verb, "continue" | "reverseContinue")
            && let Err(why) = focus_thread(request, debug)
        {
            self.wire.answer(request, Err(why));
            return AfterRequest::Stay;
        }
        let body = if verb == "continue" { json!({ "allThreadsContinued": true }) } else { Value::Null };
        self.wire.answer(request, Ok(body));
        self.refs.clear();
        let is_forward = !matches!(verb, "reverseContinue" | "stepBack");
        if is_forward && debug.timeline.is_at_end() || verb == "continue" && debug.is_untouched() {
            return AfterRequest::GoOn;
        }
        self.steps(|| match verb {
            "continue" => debug.go(SearchDirection::Forward, Goal::Nothing),
            "reverseContinue" => debug.go(SearchDirection::Backward, Goal::Nothing),
            "next" => debug.next(SearchDirection::Forward),
            "stepIn" => debug.step(SearchDirection::Forward),
            "stepOut" => debug.finish(SearchDirection::Forward),
            _ => debug.next(SearchDirection::Backward),
        });
        if debug.arrival == StopLocation::End && verb == "continue" { AfterRequest::GoOn } else { AfterRequest::Moved }
    }

    /// Runs the stepper until it stops. A pause request from the client also stops it.
    fn steps(&self, run: impl FnOnce()) {
        self.interrupt.clear();
        self.shared.begin(&self.interrupt);
        run();
        self.shared.end(&self.interrupt);
        self.shared.take_pause();
        // A late interrupt must not affect the requests that are read next.
        self.interrupt.clear();
    }

    /// Sends the `stopped` event with the program's location.
    fn report_stop(&self, debug: &Debug<'_, '_>) {
        let (reason, text) = match &debug.arrival {
            StopLocation::Start => ("entry", String::new()),
            StopLocation::Stop(StopReason::Point(_)) => ("breakpoint", String::new()),
            StopLocation::Stop(StopReason::Write(_, write)) => {
                let indices: Vec<String> = write.indices.iter().map(usize::to_string).collect();
                ("data breakpoint", format!("{}[{}]{} was written", write.array, indices.join(", "), write.part))
            }
            StopLocation::Stop(StopReason::Nan(..)) => ("exception", "NaN was computed".into()),
            StopLocation::Stop(StopReason::Refused(_, why)) => ("breakpoint", why.clone()),
            StopLocation::Stop(StopReason::Goal) => ("step", String::new()),
            StopLocation::Fault(fault) => ("exception", fault_title(fault)),
            StopLocation::End => ("step", "the launch is over".into()),
            StopLocation::Interrupted => ("pause", String::new()),
        };
        let mut body = json!({
            "reason": reason, "threadId": thread_id(debug.focus.block, debug.focus.thread), "allThreadsStopped": true,
            "description": show::arrival(debug).lines().next().unwrap_or_default(),
        });
        if !text.is_empty() {
            body["text"] = json!(text);
        }
        if let StopLocation::Stop(
            StopReason::Point(id) | StopReason::Write(id, _) | StopReason::Nan(id, ..) | StopReason::Refused(id, _),
        ) = &debug.arrival
        {
            body["hitBreakpointIds"] = json!([id]);
        }
        self.wire.event("stopped", body);
    }
}

fn evaluate(request: &DapRequest, debug: &mut Debug<'_, '_>, refs: &mut VariableRefs) -> CommandResult<Value> {
    refs.look(request, debug)?;
    let text = request.text("expression").unwrap_or_default().trim().to_string();
    if text.is_empty() {
        return Err("there is no expression to evaluate".into());
    }
    let focus = debug.focus;
    let name = debug.names().into_iter().find(|(name, _)| name.name == text);
    if let Some((name, held @ NamedContents::Array(_))) = name {
        let mut result = variables::describe(debug, refs, focus, &name.name, &held);
        result["result"] = result["value"].take();
        if let Some(result) = result.as_object_mut() {
            result
                .retain(|key, _| matches!(key.as_str(), "result" | "type" | "variablesReference" | "indexedVariables"));
        }
        return Ok(result);
    }
    if let Some((_, held)) = name {
        return Ok(json!({ "result": show::contents_text(debug, &held), "variablesReference": 0 }));
    }
    Ok(json!({ "result": debug.value(&text)?, "variablesReference": 0 }))
}

fn exception(debug: &Debug<'_, '_>) -> Value {
    match &debug.arrival {
        StopLocation::Fault(fault) => {
            let diagnostic = debug.explain(fault);
            let advice: Vec<String> = diagnostic.notes.into_iter().chain(diagnostic.help).collect();
            json!({
                "exceptionId": diagnostic.code, "description": diagnostic.title, "breakMode": "always",
                "details": { "message": advice.join("\n") },
            })
        }
        StopLocation::Stop(StopReason::Nan(..)) => {
            json!({ "exceptionId": "NaN", "description": "NaN was computed", "breakMode": "always" })
        }
        _ => json!({ "exceptionId": "none", "breakMode": "never" }),
    }
}

impl DebuggerFrontEnd for EditorFrontEnd {
    fn between(&mut self, settings: &mut DebugSettings) -> bool {
        if self.is_over {
            return false;
        }
        if self.has_begun {
            self.wire.event("terminated", json!({}));
        }
        while let Ok(request) = self.requests.recv() {
            if let Some(result) = self.answer_outside_launch(&request, settings) {
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
                other => Err(format!("`{other}` needs a kernel that has stopped").into()),
            };
            self.wire.answer(&request, result);
        }
        false
    }

    fn launch(&mut self, debug: &mut Debug<'_, '_>) -> DebugContinuation {
        let paused = self.shared.take_pause();
        let at_launch = std::mem::take(&mut debug.settings.stop_at_launch) || paused;
        if debug.arrival == StopLocation::Start && !at_launch {
            self.steps(|| debug.go(SearchDirection::Forward, Goal::Nothing));
        }
        if debug.arrival == StopLocation::End {
            return DebugContinuation::GoOn;
        }
        self.refs.clear();
        self.report_stop(debug);
        while let Ok(request) = self.requests.recv() {
            match self.answer_in_launch(&request, debug) {
                AfterRequest::Stay => {}
                AfterRequest::Moved => self.report_stop(debug),
                AfterRequest::GoOn => return DebugContinuation::GoOn,
                AfterRequest::Quit => return DebugContinuation::Quit,
            }
        }
        self.is_over = true;
        DebugContinuation::Quit
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

    fn restarts(&self) -> bool {
        false
    }
}
