//! The child process of a call: reads a job, limits itself, runs the tool, and writes the result.
//!
//! Standard input and output belong to the server. The console of the tool has a [`Transcript`] instead, so the program
//! cannot write a result of its own. Standard input stays open until the server ends.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::arguments::{ArgumentError, Arguments};
#[cfg(target_os = "linux")]
use super::landlock;
use super::limits::{LaunchCount, LaunchLimiter, SimulatorOnly, limit_process};
use super::options::{CallLimits, McpOptions};
use super::schema::{self, CallStatus};
use super::tool_call::ToolCall;
use super::tools::{self, Tool};
use super::transcript::{STYLE, Transcript};
use crate::console::{ColorMode, Console, OutputOptions};
use crate::context::AppContext;
use crate::devices::{DeviceChoice, DeviceOptions, DeviceRegistry};
use crate::disk::{self, Confinement};
use crate::framing::{self, Framing, WireFrame};
use crate::interrupt::Interrupt;
use crate::output::OutputFormat;
use crate::script::{RunLimits, ScriptDevices};
use crate::{crash, exit};
use clk_host::unwind;
use clk_lower::MmaPrecision;
use clk_runtime::Device;
use clk_sim::Simulator;

/// The hidden command of the child processes.
pub(super) const COMMAND: &str = "mcp-call";
/// Maximum length of a job in bytes. The server has limited the message from which it made the job.
const MAX_JOB: u64 = 1 << 30;
/// The names of files under which commands read the text in the argument `source`. Files on disk with these names are
/// not read.
const CLK_TEXT: &str = "<source>.clk";
const CUDA_TEXT: &str = "<source>.cu";

/// What a child process does.
pub(super) struct ToolJob<'a> {
    pub tool: &'static Tool,
    pub arguments: &'a Arguments,
    pub options: &'a McpOptions,
}

impl ToolJob<'_> {
    /// Returns the line that the child reads: the settings and the arguments.
    pub fn to_line(&self) -> String {
        let McpOptions { root, named_root, may_write, limits } = self.options;
        let settings = json!({
            "tool": self.tool.name,
            "root": root.as_deref().map(Path::to_string_lossy),
            "named_root": named_root.as_deref().map(Path::to_string_lossy),
            "may_write": may_write,
            "memory": limits.memory,
            "launches": limits.launches,
            "output": limits.output,
            "seconds": limits.time.as_secs_f64(),
        });
        // The arguments may be long, so that they are not copied into one value.
        format!("[{settings},{}]\n", self.arguments.as_json())
    }
}

/// The program that a tool examines.
struct NamedProgram {
    path: PathBuf,
    /// The text, if it is not a file.
    text: Option<String>,
}

/// Runs the process of a call; returns its exit code.
pub(super) fn main() -> u8 {
    let mut input = BufReader::new(std::io::stdin());
    let Ok(Some(WireFrame::Message(job))) = framing::read_message_line(&mut input, MAX_JOB) else {
        eprintln!("clk: this command is Clk's own");
        return exit::USAGE;
    };
    end_with_server(input);
    let Some(result) = perform(job) else {
        eprintln!("clk: this command is Clk's own");
        return exit::USAGE;
    };
    let written = framing::write_framed(&mut std::io::stdout(), Framing::Lines, &result);
    if written.is_ok() { exit::OK } else { exit::FAILURE }
}

/// Ends this process when the server closes the stream or ends.
fn end_with_server(mut input: impl Read + Send + 'static) {
    let wait = move || {
        let mut rest = [0];
        while input.read(&mut rest).is_ok_and(|count| count > 0) {}
        exit::exit_immediately(exit::FAILURE)
    };
    // Without the thread, the server still kills this process at the time limit.
    let _ = std::thread::Builder::new().name("clk-mcp-end".into()).stack_size(64 << 10).spawn(wait);
}

/// Runs a job; returns the result of the call. `None` if the job is invalid, because the server did not write it.
fn perform(mut job: Value) -> Option<Value> {
    let arguments = job.get_mut(1)?.take();
    let job = job.get(0)?;
    let tool = tools::find(job.get("tool")?.as_str()?)?;
    let number = |name: &str| job.get(name).and_then(Value::as_u64);
    let limits = CallLimits {
        time: Duration::try_from_secs_f64(job.get("seconds")?.as_f64()?).ok()?,
        memory: number("memory")?,
        launches: number("launches")?,
        output: usize::try_from(number("output")?).ok()?,
        parallel: 1,
    };
    let root = job.get("root")?.as_str().map(PathBuf::from);
    let roots = [root.as_deref(), job.get("named_root")?.as_str().map(Path::new)];
    let may_write = job.get("may_write")?.as_bool()?;
    let arguments = match Arguments::check(tool.parameters, arguments) {
        Ok(arguments) => arguments,
        Err(why) => return Some(schema::failure(CallStatus::Refused, &why.to_string())),
    };
    let program = match tool.takes_program().then(|| program(&arguments, tool, &roots)).transpose() {
        Ok(program) => program,
        Err(why) => return Some(schema::failure(CallStatus::Refused, &why.to_string())),
    };
    if std::env::set_current_dir(root.as_deref().unwrap_or(Path::new("/"))).is_err() {
        return Some(schema::failure(CallStatus::Refused, "the root folder cannot be entered"));
    }
    limit_process(limits.memory);
    let path = program.as_ref().map(|program| program.path.clone());
    let stand_in = program.and_then(|program| Some((program.path, program.text?)));
    let is_text = stand_in.is_some();
    // Without this support of the kernel, the checks of this process still confine it.
    #[cfg(target_os = "linux")]
    let _ = landlock::confine(root.as_deref(), may_write);
    disk::confine(Confinement { root, may_write, stand_in });
    if let Some(path) = path.as_deref().filter(|_| !is_text)
        && let Err(why) = disk::check_read(path)
    {
        let why = format!("`{}` cannot be read: {why}", path.display());
        return Some(schema::failure(CallStatus::Refused, &why));
    }
    Some(run(tool, &arguments, path.as_deref().unwrap_or(Path::new("")), &limits))
}

/// Returns the program that the arguments name. An absolute path in the root, by one of its names, becomes relative to
/// it.
fn program(arguments: &Arguments, tool: &Tool, roots: &[Option<&Path>]) -> Result<NamedProgram, ArgumentError> {
    match (arguments.text("source"), arguments.text("path")) {
        (Some(text), None) => {
            let is_cuda = tool.is_for_cuda() || arguments.text("language") == Some("cuda");
            let path = PathBuf::from(if is_cuda { CUDA_TEXT } else { CLK_TEXT });
            Ok(NamedProgram { path, text: Some(text.to_owned()) })
        }
        (None, Some(path)) => {
            let path = Path::new(path);
            let mut rests = roots.iter().flatten().filter_map(|root| path.strip_prefix(root).ok());
            let relative = match rests.next() {
                Some(rest) if rest.as_os_str().is_empty() => Path::new("."),
                Some(rest) => rest,
                None => path,
            };
            Ok(NamedProgram { path: relative.to_path_buf(), text: None })
        }
        _ => Err(ArgumentError::NoProgram),
    }
}

/// Runs a tool until its time limit.
fn run(tool: &Tool, arguments: &Arguments, path: &Path, limits: &CallLimits) -> Value {
    let transcript = Arc::new(Transcript::new(limits.output));
    let interrupt = Interrupt::default();
    let launches = Arc::new(LaunchCount::new(limits.launches));
    let mut context = context(&transcript, &interrupt, &launches);
    context.console.cuda_options = tools::cuda_options(arguments);
    {
        let (interrupt, time) = (interrupt.clone(), arguments.time_limit(limits.time));
        let wait = move || {
            std::thread::sleep(time);
            interrupt.stop_for_good();
        };
        let _ = std::thread::Builder::new().name("clk-mcp-time".into()).stack_size(64 << 10).spawn(wait);
    }
    let call = ToolCall { arguments, path, launches: &launches };
    let work = || unwind::catch_stop(interrupt.flag(), || (tool.run)(&call, &mut context));
    let mut has_panicked = false;
    let code = match crash::catch_panic(work) {
        Ok(Ok(code)) => code,
        Ok(Err(why)) => {
            context.console.report(&why.anywhere(), &Default::default());
            exit::FAILURE
        }
        Err(panic) => {
            has_panicked = true;
            context.console.report(&panic, &Default::default());
            exit::INTERNAL
        }
    };
    // A script chooses its exit code, so that a code alone does not mean that the arguments are invalid.
    let is_rejected = code == exit::USAGE && !tool.reports_programs && !transcript.has_results();
    let status = match code {
        _ if has_panicked => CallStatus::Crashed,
        exit::OK => CallStatus::Ok,
        _ if interrupt.is_stopped_for_good() => CallStatus::TimeLimit,
        _ if launches.is_exceeded() => CallStatus::LaunchLimit,
        _ if is_rejected => CallStatus::Refused,
        _ => CallStatus::Failed,
    };
    let counts = context.console.tally.summary();
    let verdict = match status {
        CallStatus::TimeLimit => "the time limit was reached".to_owned(),
        CallStatus::LaunchLimit => format!("the limit of {} launches was reached", limits.launches),
        CallStatus::Ok => "ok".to_owned(),
        _ => format!("exit code {code}"),
    };
    let counts = counts.map_or(String::new(), |counts| format!(", {counts}"));
    transcript.conclude(&format!("[clk {}: {verdict}{counts}]", tool.name));
    // A verdict about the program is the result of `check` and `run`; other tools have failed without one.
    let has_failed = match status {
        CallStatus::Ok => false,
        CallStatus::Failed => !tool.reports_programs && !transcript.has_results(),
        CallStatus::Refused | CallStatus::TimeLimit | CallStatus::LaunchLimit | CallStatus::Crashed => true,
    };
    let (text, data) = transcript.content();
    schema::call_result(status, Some(code), has_failed, &text, data)
}

fn context(transcript: &Arc<Transcript>, interrupt: &Interrupt, launches: &Arc<LaunchCount>) -> AppContext {
    let mut console = Console::new(OutputOptions { color: ColorMode::Never, ascii: false, format: OutputFormat::Json });
    console.stage = Some(transcript.clone());
    (console.style, console.error_style) = (STYLE, STYLE);
    let options = DeviceOptions::default();
    let (text, isa, jit) = (options.text, options.isa, options.jit);
    let machine = DeviceRegistry::new(options);
    let simulator = machine.choose(DeviceChoice::Sim(None)).unwrap_or_else(|_| Arc::new(Simulator::default()));
    let device: Arc<dyn Device> = Arc::new(LaunchLimiter { device: simulator, launches: launches.clone() });
    let limits = RunLimits {
        sums: MmaPrecision::TensorCore(Default::default()),
        places: ScriptDevices { device: Some(device.clone()), all: Some(Arc::new(SimulatorOnly(device))) },
        ..RunLimits::default()
    };
    AppContext {
        console,
        interrupt: interrupt.clone(),
        limits,
        text,
        machine,
        device: DeviceChoice::Sim(None),
        isa,
        jit,
    }
}
