//! Converts faults to diagnostics. A diagnostic shows what happened, the source line, the thread and the values
//! involved.

use crate::fault::{
    AccessKind, DeviceError, Fault, FaultKind, LockAcquisition, Race, ReplayVerdict, ThreadId, WarpAccessCost,
    WarpMaskError, WorkerLoss, size,
};
use clk_base::diag::{Diagnostic, LabelRole, Severity};
use clk_base::source::Span;
use clk_scalar::ScalarValue;
use clk_scalar::fault_help::{conversion_help, overflow_help};

/// Returns the diagnostic of a fault. The host adds the location of the launch.
pub fn fault_diagnostic(fault: &Fault) -> Diagnostic {
    if let FaultKind::Device(error @ DeviceError::Lost(_)) = &fault.kind {
        return device_diagnostic(error, fault.span);
    }
    let who = faulting_thread(fault);
    let (code, title, label) = headline(fault, &who);
    let severity = match &fault.kind {
        FaultKind::CoverageGaps { .. } | FaultKind::Variation(_) => Severity::Note,
        _ if code.starts_with('W') => Severity::Warning,
        _ => Severity::Error,
    };
    let mut diagnostic = Diagnostic::new(severity, code, title).at(fault.span, label);
    for &call in &fault.trace {
        diagnostic = diagnostic.label(LabelRole::Call, call, "called from here");
    }
    if fault.others > 0 {
        let (threads, verb) = if fault.others == 1 { ("thread", "does") } else { ("threads", "do") };
        diagnostic = diagnostic.note(format!("{} other {threads} {verb} the same here", fault.others));
    }
    advise(fault, diagnostic)
}

/// Returns a one-line description of a fault, without the thread and the source location.
pub fn fault_message(kind: &FaultKind) -> String {
    headline(&kind.clone().into_launch_fault(Span::default()), "the thread").1
}

/// Returns a one-line description of a fault that includes the faulting thread.
pub fn fault_title(fault: &Fault) -> String {
    headline(fault, &faulting_thread(fault)).1
}

/// Returns `thread (5, 0, 0) of block (3, 0, 0)`, or the index tuple of a `threads` kernel.
fn faulting_thread(fault: &Fault) -> String {
    thread_description(fault.index.as_deref(), fault.thread, fault.block)
}

/// Like [`faulting_thread`], but for any thread of a launch.
pub fn thread_description(index: Option<&[u32]>, thread: [u32; 3], block: [u32; 3]) -> String {
    match index {
        Some([one]) => format!("the thread of index {one}"),
        Some(index) => format!("the thread of index {}", tuple(index)),
        None => format!("thread {} of block {}", place(thread), place(block)),
    }
}

/// Formats coordinates without trailing zeros: `3` instead of `(3, 0, 0)`. Most launches have only one axis.
fn place(at: [u32; 3]) -> String {
    match at {
        [x, 0, 0] => x.to_string(),
        [x, y, 0] => format!("({x}, {y})"),
        all => tuple(&all),
    }
}

fn tuple(index: &[u32]) -> String {
    let parts: Vec<String> = index.iter().map(u32::to_string).collect();
    format!("({})", parts.join(", "))
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// Maximum number of other threads that the message about a lock-order inversion lists.
const LOCK_STEPS: usize = 3;

/// Returns the diagnostic's error code, its title, and the label of its primary span.
fn headline(fault: &Fault, who: &str) -> (&'static str, String, String) {
    match &fault.kind {
        FaultKind::OutOfBounds { array, indices, shape, axis, write } => {
            let verb = if *write { "writes" } else { "reads" };
            let label = format!("{who} {verb} `{array}[{}]`", list(indices));
            ("E0601", bounds_title(array, indices, shape, *axis), label)
        }
        FaultKind::DivisionByZero { left } => {
            let title = format!("{} is divided by zero", number(*left));
            ("E0602", title, format!("the divisor is 0 in {who}"))
        }
        FaultKind::Assert { message } => {
            let title = match message.as_str() {
                "" => "assertion failed".to_string(),
                text => format!("assertion failed: {text}"),
            };
            ("E0603", title, format!("this is not true in {who}"))
        }
        FaultKind::Divergence { what, arrived, expected, elsewhere: _ } => {
            let title = format!("only {arrived} of {expected} threads reach `{what}`");
            ("E0604", title, format!("{who} is here, others are not"))
        }
        FaultKind::Deadlock { detail } => {
            ("E0605", format!("these threads wait forever: {detail}"), format!("{who} waits here"))
        }
        FaultKind::LockOrder(step, others) => lock_headline(step, others),
        FaultKind::StepLimit { steps } => {
            let title = format!("the kernel was stopped after {steps} loop turns");
            ("E0606", title, format!("{who} was in this loop"))
        }
        FaultKind::Interrupted => ("E0607", "interrupted".into(), format!("{who} was here")),
        FaultKind::ZeroStep => {
            ("E0608", "a loop in steps of zero never ends".into(), format!("the step is 0 in {who}"))
        }
        FaultKind::Race(race) => race_headline(race, who),
        FaultKind::Unwritten { place, .. } => {
            ("E0611", format!("`{place}` is read before it is written"), format!("{who} reads it"))
        }
        FaultKind::Incomplete { array, places, count, total, .. } => {
            let more = if *count > places.len() as u64 { ", …" } else { "" };
            let title =
                format!("{count} of {total} elements of `{array}` were not written: {}{more}", places.join(", "));
            ("W0602", title, "some elements were never written".into())
        }
        FaultKind::CoverageGaps { warps, reason } => {
            let few = if *warps { "blocks of one warp" } else { "a launch of one block" };
            let two = if *warps { "two warps" } else { "two blocks" };
            ("W0603", format!("{few} cannot show conflicts of {two}"), reason.clone())
        }
        FaultKind::Crowd(crowd) => access_cost_headline(crowd, who),
        FaultKind::Overflow { operation, ty } => {
            ("E0612", format!("{operation} does not fit `{}`", ty.name()), format!("computed by {who}"))
        }
        FaultKind::ShiftAmount { amount, ty } => {
            let title = format!("a shift of `{}` by {amount}", ty.name());
            ("E0613", title, format!("{who} shifts by {amount}"))
        }
        FaultKind::Among { what, lane, wrong, .. } => {
            let title = match *wrong {
                WarpMaskError::Own => format!("lane {lane} executes a `{what}`, but its mask does not include it"),
                WarpMaskError::LaneAbsent(other) => {
                    format!("lane {other} is in the mask of this `{what}` and does not execute it")
                }
                WarpMaskError::Other(other, _) => {
                    format!("lanes {lane} and {other} do one `{what}` among different lanes")
                }
                WarpMaskError::Source(from) => format!("`{what}` from lane {from}, which does not take part"),
            };
            ("E0617", title, format!("{who} is lane {lane}"))
        }
        FaultKind::InvalidLane { what, lane, lanes } => {
            let title = match *what {
                "shuffle" => format!("`shuffle` from lane {lane} of a warp of {lanes}"),
                _ => format!("`{what}` by {lane}: the lanes of a warp are not that far apart"),
            };
            ("E0616", title, format!("{who} asks for it"))
        }
        FaultKind::Conversion { value, to } => {
            ("E0614", format!("{value} does not fit `{}`", to.name()), format!("converted by {who}"))
        }
        FaultKind::NotFinite { operation, result } => {
            let title = format!("{operation} is {result}, the first non-finite number");
            ("E0615", title, format!("computed by {who}"))
        }
        FaultKind::SharedExtent { array, extent } => {
            let title = format!("the shared array `{array}` cannot have {extent} elements");
            ("E0609", title, format!("an extent is {extent} here"))
        }
        FaultKind::SharedSize { bytes, limit } => {
            let requested = match *bytes {
                u64::MAX => "more bytes".into(),
                bytes => format!("{bytes} bytes"),
            };
            let counted = if *bytes == u64::MAX { " than can be counted" } else { "" };
            let title = format!("a block asks for {requested} of shared memory{counted} and can have {limit}");
            ("E0609", title, "this array exceeds the limit".into())
        }
        FaultKind::Device(error) => (device_code(error), error.to_string(), String::new()),
        FaultKind::Disagreement(difference) => ("E0623", difference.title(), String::new()),
        FaultKind::Variation(variation) => ("W0604", variation.title(), String::new()),
    }
}

fn lock_headline(step: &LockAcquisition, others: &[LockAcquisition]) -> (&'static str, String, String) {
    let title = match others {
        [_] => format!(
            "threads can deadlock: `{}` and `{}` are acquired in both orders",
            step.held_lock, step.acquired_lock
        ),
        _ => format!("threads can deadlock: {} locks are acquired in a cycle", others.len() + 1),
    };
    ("E0605", title, lock_text(step))
}

fn lock_text(step: &LockAcquisition) -> String {
    let ThreadId { block, thread, index } = &step.thread_id;
    let who = thread_description(index.as_deref(), *thread, *block);
    format!("{who} takes `{}` here while it has `{}`", step.acquired_lock, step.held_lock)
}

fn race_headline(race: &Race, who: &str) -> (&'static str, String, String) {
    let space = if race.shared { "shared" } else { "global" };
    let label = format!("{who} {}", access_text(race.access_kind, race.value));
    match race.is_benign() {
        true => ("W0601", format!("several threads write the same to `{}` in {space} memory", race.place), label),
        false => ("E0610", format!("a data race on `{}` in {space} memory", race.place), label),
    }
}

fn access_cost_headline(crowd: &WarpAccessCost, who: &str) -> (&'static str, String, String) {
    let WarpAccessCost { array, count, place, other_place, bank, .. } = crowd;
    let other = thread_description(crowd.other.index.as_deref(), crowd.other.thread, crowd.other.block);
    let both = match other == who {
        true => format!("{who} accesses `{place}`"),
        false => format!("{who} accesses `{place}`, and {other} `{other_place}`"),
    };
    let plural = if *count == 1 { "" } else { "s" };
    match crowd.shared {
        true => {
            let passes = if *count == 1 { "" } else { "es" };
            let title = format!("a warp takes {count} pass{passes} for an access to `{array}` in shared memory");
            ("W0608", title, format!("{both}, in bank {bank}"))
        }
        false => ("W0609", format!("a warp touches {count} sector{plural} of `{array}` in one access"), both),
    }
}

/// Adds a note with the number of participating threads, and help on how to reduce the cost of the access.
fn advise_access_cost(crowd: &WarpAccessCost, diagnostic: Diagnostic) -> Diagnostic {
    let threads = format!("{} thread{} of the warp", crowd.threads, if crowd.threads == 1 { "" } else { "s" });
    match crowd.shared {
        true => diagnostic
            .note(format!("{threads} take part; a pass takes one word of 4 bytes from each of the 32 banks"))
            .help("let the threads of a warp access adjacent elements; where they go down a column, pad rows: `[f32; 32, 33]`"),
        false => diagnostic
            .note(format!("{threads} take part, whose elements would fit {} sectors of 32 bytes", crowd.fewest))
            .help("let the threads of a warp access adjacent elements: along the last axis, from a multiple of 32 bytes on"),
    }
}

fn access_text(deed: AccessKind, value: Option<ScalarValue>) -> String {
    match (deed, value) {
        (AccessKind::Load, Some(value)) => format!("reads it: {value} in this run"),
        (AccessKind::Load, None) => "reads it".into(),
        (AccessKind::Store, Some(value)) => format!("writes {value}"),
        (AccessKind::Store, None) => "writes it".into(),
        (AccessKind::AtomicRmw, _) => "updates it by an atomic operation".into(),
        (AccessKind::AtomicLoad, _) => "reads it by an atomic operation".into(),
    }
}

/// What removes a race, as far as the fault alone shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaceRemedy {
    /// The threads write the same value: only one of them has to.
    OneWriter,
    /// Both threads execute the same update, such as `x[i] += v`.
    AtomicUpdate,
    /// The threads are in one block, whose barriers can order them.
    Barrier,
    /// The threads of a `threads` kernel, which cannot be ordered.
    OwnElements,
    /// The threads are in different blocks.
    OwnBlocks,
}

impl RaceRemedy {
    /// Returns the remedy for a race whose reported access is at `span`.
    pub fn of(race: &Race, span: Span) -> RaceRemedy {
        let reads = [race.access_kind, race.other_access_kind].contains(&AccessKind::Load);
        match (race.same_warp, race.same_block) {
            _ if race.is_benign() => RaceRemedy::OneWriter,
            // Both threads execute the same statement. A barrier cannot separate the two accesses.
            _ if span == race.other_span && reads => RaceRemedy::AtomicUpdate,
            (true, _) | (_, true) => RaceRemedy::Barrier,
            (false, false) if race.other.index.is_some() => RaceRemedy::OwnElements,
            (false, false) => RaceRemedy::OwnBlocks,
        }
    }

    /// Returns the general help text.
    pub fn help(self) -> &'static str {
        match self {
            RaceRemedy::OneWriter => "let one thread write it, or use an atomic operation",
            RaceRemedy::AtomicUpdate => {
                "an atomic operation, such as `atomic_add`, does both at once; or let each thread write a place of its own"
            }
            RaceRemedy::Barrier => "put a `barrier()` between the two",
            RaceRemedy::OwnElements => {
                "let each thread write elements of its own, or use atomic operations; to read what other threads overwrite, write \
                 the results to another array"
            }
            RaceRemedy::OwnBlocks => {
                "let each block write elements of its own, use atomic operations, or launch another kernel for the second part"
            }
        }
    }
}

/// Adds a label for the other access of the race, and help on how to order the two accesses.
fn advise_race(race: &Race, span: Span, diagnostic: Diagnostic) -> Diagnostic {
    let other = thread_description(race.other.index.as_deref(), race.other.thread, race.other.block);
    let label = format!("{other} {}", access_text(race.other_access_kind, race.other_value));
    let diagnostic = diagnostic.label(LabelRole::OtherThread, race.other_span, label);
    let remedy = RaceRemedy::of(race, span);
    let mixed = race.access_kind.is_atomic() != race.other_access_kind.is_atomic();
    let diagnostic = match mixed && !matches!(remedy, RaceRemedy::OneWriter | RaceRemedy::AtomicUpdate) {
        true => diagnostic.note("an atomic operation does not order an access that is not atomic"),
        false => diagnostic,
    };
    let note = match remedy {
        RaceRemedy::OneWriter => return diagnostic.help(remedy.help()),
        RaceRemedy::AtomicUpdate => {
            "the statement reads the place and writes it, and another thread can come in between"
        }
        RaceRemedy::Barrier if race.same_warp => {
            "both threads are in one warp, but even a warp is ordered by `warp_barrier()` and warp operations only"
        }
        RaceRemedy::Barrier => "nothing orders the two threads",
        RaceRemedy::OwnElements => "the threads of a `threads` kernel run in any order",
        RaceRemedy::OwnBlocks => {
            "blocks run in any order and at the same time; a barrier orders the threads of one block"
        }
    };
    diagnostic.note(note).help(remedy.help())
}

fn bounds_title(array: &str, indices: &[i64], shape: &[u32], axis: usize) -> String {
    let index = indices.get(axis).copied().unwrap_or_default();
    let extent = shape.get(axis).copied().unwrap_or_default();
    match shape.len() {
        0 | 1 => format!("index {index} is out of bounds for `{array}` of length {extent}"),
        _ => format!(
            "index {index} is out of bounds for axis {axis} of `{array}`, which is {extent} long (shape [{}])",
            list(shape)
        ),
    }
}

/// Returns whether two indices of a two-dimensional array would be in bounds if they were swapped.
pub fn are_indices_swapped(indices: &[i64], shape: &[u32]) -> bool {
    match (indices, shape) {
        (&[a, b], &[m, n]) => m != n && (0..i64::from(m)).contains(&b) && (0..i64::from(n)).contains(&a),
        _ => false,
    }
}

fn reversed(indices: &[i64]) -> String {
    let reversed: Vec<i64> = indices.iter().rev().copied().collect();
    list(&reversed)
}

fn number(value: ScalarValue) -> String {
    value.as_integer().map_or_else(|| "a number".to_string(), |n| n.to_string())
}

/// Adds notes and help for the kind of fault.
fn advise(fault: &Fault, diagnostic: Diagnostic) -> Diagnostic {
    match &fault.kind {
        FaultKind::OutOfBounds { array, indices, shape, axis, .. } => {
            let index = indices.get(*axis).copied().unwrap_or_default();
            let extent = i64::from(shape.get(*axis).copied().unwrap_or_default());
            match index < 0 {
                true => diagnostic.note("indices begin at 0; a negative one does not count from the end"),
                false if are_indices_swapped(indices, shape) => diagnostic
                    .note("the last axis varies fastest: `.x` runs along it, `.y` along the one before")
                    .help(format!("are the indices in the wrong order? `[{}]` would be inside", reversed(indices))),
                false if extent == 0 => diagnostic.note(format!("`{array}` has no elements")),
                false => diagnostic.help(format!("valid indices are 0 to {}", extent - 1)),
            }
        }
        FaultKind::DivisionByZero { .. } => diagnostic.help("test the divisor first: `if d != 0 { n / d } else { … }`"),
        FaultKind::Assert { .. } | FaultKind::Interrupted => diagnostic,
        FaultKind::Divergence { elsewhere, what, .. } => {
            let diagnostic = match elsewhere {
                Some(span) => {
                    diagnostic.label(LabelRole::OtherThread, *span, "the other threads took another branch here")
                }
                None => diagnostic,
            };
            diagnostic
                .note(format!(
                    "`{what}` waits for all threads; those that returned or took another branch never arrive"
                ))
                .help("let all threads execute it, and make only the work in between depend on the thread")
        }
        FaultKind::Deadlock { .. } => diagnostic
            .note("a thread may wait for blocks that started before its own, never for a thread of its own warp"),
        FaultKind::Race(race) => advise_race(race, fault.span, diagnostic),
        FaultKind::Unwritten { space, .. } => match *space {
            "shared" => diagnostic
                .note("shared memory is uninitialized when a block begins")
                .help("write it first, then synchronize with `barrier()`"),
            "out" => diagnostic
                .note("the old contents of an `out` array are lost")
                .help("declare the parameter `inout` if the kernel reads its old contents"),
            _ => diagnostic.help("give the array a first value: `var a: [f32; 8] = 0.0`"),
        },
        FaultKind::Incomplete { .. } => {
            diagnostic.help("declare the parameter `inout` if elements may stay as they were")
        }
        FaultKind::Overflow { operation, ty } => {
            let among_threads = operation.starts_with("atomic_") || operation.starts_with("warp_");
            match (among_threads, operation.contains(" ** (-")) {
                (true, _) => diagnostic
                    .note("the result wraps; unsigned types do so by definition")
                    .help("use a wider type, or an unsigned one if wrapping is meant"),
                (_, true) => diagnostic
                    .note("the power is a fraction, which an integer cannot represent")
                    .help("compute it with floats: `f32(x) ** -1.0`"),
                _ => diagnostic
                    .note("the result wraps; unsigned types do so by definition")
                    .help(overflow_help(operation, *ty)),
            }
        }
        FaultKind::Crowd(crowd) => advise_access_cost(crowd, diagnostic),
        FaultKind::CoverageGaps { warps, .. } => diagnostic.help(match warps {
            true => "run the check again with blocks of at least 64 threads",
            false => "run the check again with an argument that takes several blocks",
        }),
        FaultKind::ShiftAmount { ty, .. } => {
            diagnostic.note(format!("the amount counts modulo {}, the width of `{}`", ty.bits(), ty.name()))
        }
        FaultKind::Among { mask, lane, wrong, .. } => {
            let diagnostic = diagnostic.note(format!("for lane {lane}, `among` is {mask:#010x}"));
            match *wrong {
                WarpMaskError::Other(other, theirs) => {
                    diagnostic.note(format!("for lane {other} it is {theirs:#010x}"))
                }
                WarpMaskError::Source(_) => diagnostic.help("use a lane whose bit is set in `among`, such as `ctz(m)`"),
                _ => diagnostic,
            }
            .help("compute the mask before the branch: `let m = ballot(p)`, then `if p { … among = m … }`")
        }
        FaultKind::InvalidLane { lanes, .. } => diagnostic
            .note(format!("lanes are numbered from 0 to {}; a GPU takes the number modulo 32", lanes.saturating_sub(1)))
            .help("`shuffle_up` and `shuffle_down` give the own value where there is no such lane"),
        FaultKind::LockOrder(_, others) => {
            let diagnostic = others
                .iter()
                .take(LOCK_STEPS)
                .fold(diagnostic, |d, step| d.label(LabelRole::OtherThread, step.span, lock_text(step)));
            diagnostic
                .note("this run did not deadlock; in another order of threads each holds the lock that the other waits for")
                .help("acquire locks in the same order everywhere, for example the one with the smaller index first")
        }
        FaultKind::Conversion { value, to } => diagnostic
            .note("it becomes the nearest number that fits, NaN becomes 0")
            .help(conversion_help(value.as_f64(), *to)),
        FaultKind::NotFinite { .. } => diagnostic,
        FaultKind::StepLimit { .. } => diagnostic.help("does the loop end? `--max-steps` sets the limit"),
        FaultKind::ZeroStep => diagnostic.help("steps are positive, or negative to count down"),
        FaultKind::SharedExtent { .. } => {
            diagnostic.help("extents must not be negative: check the arguments that this one is computed from")
        }
        FaultKind::SharedSize { .. } => diagnostic.help("use smaller tiles, or let each block work on less at a time"),
        FaultKind::Device(error) => explain_device(error, diagnostic),
        FaultKind::Disagreement(difference) => {
            let placed = match difference.place() {
                Some((span, text)) => diagnostic.because(span, text),
                None => diagnostic,
            };
            difference.notes().into_iter().fold(placed, Diagnostic::note)
        }
        FaultKind::Variation(variation) => variation.notes().into_iter().fold(diagnostic, Diagnostic::note),
    }
}

/// Returns the diagnostic for a device error that occurred outside of any launch.
pub fn device_diagnostic(error: &DeviceError, span: Span) -> Diagnostic {
    if let DeviceError::EarlierLaunch(earlier) = error {
        return fault_diagnostic(&earlier.fault).because(earlier.origin.launched, "launched here");
    }
    if let DeviceError::Lost(loss) = error {
        return loss_diagnostic(loss, span);
    }
    explain_device(error, Diagnostic::error(device_code(error), error.to_string()).at(span, ""))
}

fn device_code(error: &DeviceError) -> &'static str {
    match error {
        DeviceError::OutOfMemory { .. } => "E0620",
        DeviceError::NoHostMemory { .. } => "E0509",
        DeviceError::TooLarge { .. } => "E0621",
        DeviceError::Lost(loss) if loss.stopped => "E0607",
        DeviceError::Driver { .. } | DeviceError::Lost(_) => "E0622",
        DeviceError::Unavailable { .. } => "E0595",
        DeviceError::EarlierLaunch(earlier) => headline(&earlier.fault, "").0,
        DeviceError::Rejected { .. } => "E0999",
    }
}

fn explain_device(error: &DeviceError, diagnostic: Diagnostic) -> Diagnostic {
    match error {
        DeviceError::OutOfMemory { wanted, free, total, arrays, .. } => {
            let (free, total, arrays) = (size(*free), size(*total), size(*arrays));
            diagnostic
                .note(format!("{} were asked for; {free} of {total} are free, arrays hold {arrays}", size(*wanted)))
                .help("free arrays that are no longer needed (`x = zeros(0)`), or process one part at a time")
        }
        DeviceError::Rejected { log, .. } => diagnostic.note(log.clone()).help("please report this as a bug of Clk"),
        DeviceError::Driver { lost: true, .. } => diagnostic
            .note("after this error the device is unusable in this process, and the contents of its memory are lost")
            .help("`--device sim` runs the same kernels and shows faults at their lines"),
        DeviceError::Unavailable { .. } => diagnostic.help("run it on the simulator: `on sim { … }` or `--device sim`"),
        DeviceError::TooLarge { what, .. } if *what == DeviceError::REGISTERS => {
            diagnostic.help("divide it into several kernels, or keep constants in an array")
        }
        DeviceError::TooLarge { .. } => diagnostic.help("launch it in parts"),
        DeviceError::Driver { .. } | DeviceError::NoHostMemory { .. } => diagnostic,
        DeviceError::EarlierLaunch(_) | DeviceError::Lost(_) => diagnostic,
    }
}

/// Returns the diagnostic for the loss of a worker process. If the simulator found a fault when it replayed the launch,
/// the diagnostic reports that fault, with a note about the loss. `span` is the statement at which the host noticed the
/// loss.
fn loss_diagnostic(loss: &WorkerLoss, span: Span) -> Diagnostic {
    let title = DeviceError::Lost(Box::new(loss.clone())).to_string();
    let code = if loss.stopped { "E0607" } else { "E0622" };
    let place = loss.kernel.as_ref().map_or(span, |(_, place)| *place);
    let diagnostic = match &loss.verdict {
        ReplayVerdict::Fault(fault) => {
            fault_diagnostic(fault).note(format!("{title}; the simulator found this when it ran the launch again"))
        }
        ReplayVerdict::StillRunning(fault, seconds) => Diagnostic::error(code, title)
            .at(fault.span, format!("{} was still here after {seconds:.1} s on the simulator", faulting_thread(fault))),
        ReplayVerdict::Nothing => Diagnostic::error(code, title)
            .at(place, "this kernel was running")
            .note("the simulator ran the launch again with its arrays as they are now, and finds no fault"),
        ReplayVerdict::NotRun(why) => Diagnostic::error(code, title)
            .at(place, if loss.kernel.is_some() { "this kernel was running" } else { "noticed here" })
            .note(format!("the simulator did not run the launch again: {why}")),
    };
    let diagnostic = match loss.origin {
        Some(origin) => diagnostic.because(origin.launched, "launched here"),
        None => diagnostic,
    };
    let diagnostic = match loss.waiting {
        0 => diagnostic,
        1 => diagnostic.note("a launch queued after it was not run"),
        n => diagnostic.note(format!("{n} launches queued after it were not run")),
    };
    match &loss.replaced {
        Ok(seconds) => diagnostic.note(format!(
            "the GPU's process was replaced within {seconds:.2} s; arrays are as the kernel left them, and the GPU works on"
        )),
        Err(problem) => diagnostic.note(format!("the GPU's process could not be replaced: {problem}")),
    }
}
