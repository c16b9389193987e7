//! A fault as a diagnostic: what happened, at which line, in which thread, with which values.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::device::both::Disagreement;
use crate::device::error::{DeviceError, size};
use crate::device::{Fault, FaultKind};
use crate::lang::scalar::Value;

/// The message for a fault. The host adds where the kernel was launched.
pub fn fault_diagnostic(fault: &Fault) -> Diagnostic {
    let who = thread_text(fault);
    let (code, title, label) = headline(fault, &who);
    let mut diagnostic = Diagnostic::error(code, title).at(fault.span, label);
    for &call in &fault.trace {
        diagnostic = diagnostic.because(call, "called from here");
    }
    if fault.others > 0 {
        let (threads, verb) = if fault.others == 1 { ("thread", "does") } else { ("threads", "do") };
        diagnostic = diagnostic.note(format!("{} other {threads} {verb} the same here", fault.others));
    }
    advise(fault, diagnostic)
}

/// `thread (5, 0, 0) of block (3, 0, 0)`, or the index tuple of a `threads` kernel.
fn thread_text(fault: &Fault) -> String {
    match fault.index.as_deref() {
        Some([one]) => format!("the thread of index {one}"),
        Some(index) => format!("the thread of index {}", tuple(index)),
        None => format!("thread {} of block {}", place(fault.thread), place(fault.block)),
    }
}

/// Coordinates without trailing zero axes: most launches have one.
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

/// Code, title and what stands under the place.
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
            ("E0605", format!("these threads wait for ever: {detail}"), format!("{who} waits here"))
        }
        FaultKind::StepLimit { steps } => {
            let title = format!("the kernel was stopped after {steps} loop turns");
            ("E0606", title, format!("{who} was in this loop"))
        }
        FaultKind::Interrupted => ("E0607", "interrupted".into(), format!("{who} was here")),
        FaultKind::ZeroStep => {
            ("E0608", "a loop in steps of zero never ends".into(), format!("the step is 0 in {who}"))
        }
        FaultKind::SharedSize { bytes, limit } => {
            let title = format!("a block asks for {bytes} bytes of shared memory and can have {limit}");
            ("E0609", title, "with this array it becomes too much".into())
        }
        FaultKind::Device(error) => (device_code(error), error.to_string(), String::new()),
        FaultKind::Disagreement(difference) => ("E0623", difference.title(), String::new()),
    }
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

/// Whether indices of two axes would be inside if they changed places.
fn swapped(indices: &[i64], shape: &[u32]) -> bool {
    match (indices, shape) {
        (&[a, b], &[m, n]) => m != n && (0..i64::from(m)).contains(&b) && (0..i64::from(n)).contains(&a),
        _ => false,
    }
}

fn reversed(indices: &[i64]) -> String {
    let reversed: Vec<i64> = indices.iter().rev().copied().collect();
    list(&reversed)
}

fn number(value: Value) -> String {
    value.as_integer().map_or_else(|| "a number".to_string(), |n| n.to_string())
}

/// Notes and helps that fit the kind.
fn advise(fault: &Fault, diagnostic: Diagnostic) -> Diagnostic {
    match &fault.kind {
        FaultKind::OutOfBounds { indices, shape, axis, .. } => {
            let index = indices.get(*axis).copied().unwrap_or_default();
            let extent = i64::from(shape.get(*axis).copied().unwrap_or_default());
            match (index < 0, fault.index.is_some()) {
                (true, _) => diagnostic.note("indices begin at 0; a negative one does not count from the end"),
                (false, _) if swapped(indices, shape) => diagnostic
                    .note("the last axis varies fastest: `.x` runs along it, `.y` along the one before")
                    .help(format!("are the indices in the wrong order? `[{}]` would be inside", reversed(indices))),
                (false, false) if index < extent + 1024 => diagnostic
                    .note("a grid is made of whole blocks, so its last block can reach past the end of an array")
                    .help("guard the access: `if i < N { … }`, or write the kernel with `threads(i: N)`"),
                _ => diagnostic.help(format!("valid indices are 0 to {}", extent - 1)),
            }
        }
        FaultKind::DivisionByZero { .. } => diagnostic.help("test the divisor first: `if d != 0 { n / d } else { … }`"),
        FaultKind::Assert { .. } | FaultKind::Interrupted => diagnostic,
        FaultKind::Divergence { elsewhere, what, .. } => {
            let diagnostic = match elsewhere {
                Some(span) => diagnostic.because(*span, "the others went another way here"),
                None => diagnostic,
            };
            diagnostic
                .note(format!("`{what}` waits for all of its threads; those that left or went around it never come"))
                .help("move it out of the `if`, and let only the work in between depend on the thread")
        }
        FaultKind::Deadlock { .. } => diagnostic
            .note("a thread may wait for blocks that started before its own, never for a thread of its own warp"),
        FaultKind::StepLimit { .. } => diagnostic.help("does the loop end? `--max-steps` sets the limit"),
        FaultKind::ZeroStep => diagnostic.help("steps are positive, or negative to count down"),
        FaultKind::SharedSize { .. } => diagnostic.help("use smaller tiles, or let each block work on less at a time"),
        FaultKind::Device(error) => explain_device(error, diagnostic),
        FaultKind::Disagreement(difference) => explain_disagreement(difference, diagnostic),
    }
}

/// The message for a device's failure outside of any launch.
pub fn device_diagnostic(error: &DeviceError, span: Span) -> Diagnostic {
    explain_device(error, Diagnostic::error(device_code(error), error.to_string()).at(span, ""))
}

fn device_code(error: &DeviceError) -> &'static str {
    match error {
        DeviceError::OutOfMemory { .. } => "E0620",
        DeviceError::NoHostMemory { .. } => "E0509",
        DeviceError::TooLarge { .. } => "E0621",
        DeviceError::Driver { .. } => "E0622",
        DeviceError::Unavailable { .. } => "E0595",
        DeviceError::Rejected { .. } => "E0999",
    }
}

fn explain_device(error: &DeviceError, diagnostic: Diagnostic) -> Diagnostic {
    match error {
        DeviceError::OutOfMemory { wanted, free, total, arrays, .. } => {
            let (free, total, arrays) = (size(*free), size(*total), size(*arrays));
            diagnostic
                .note(format!("{} were asked for; {free} of {total} are free, arrays hold {arrays}", size(*wanted)))
                .help("let go of what is not needed any more (`x = zeros(0)`), or work on a part at a time")
        }
        DeviceError::Rejected { log, .. } => diagnostic.note(log.clone()).help("please report this as a bug of Clk"),
        DeviceError::Driver { lost: true, .. } => diagnostic
            .note("after such an error the device does nothing more for this process; what was in its memory is lost")
            .help("`--device sim` runs the same kernels and shows faults at their lines"),
        DeviceError::Unavailable { .. } => diagnostic.help("run it on the simulator: `on sim { … }` or `--device sim`"),
        DeviceError::TooLarge { .. } => diagnostic.help("launch it in parts"),
        DeviceError::Driver { .. } | DeviceError::NoHostMemory { .. } => diagnostic,
    }
}

fn explain_disagreement(difference: &Disagreement, diagnostic: Diagnostic) -> Diagnostic {
    difference.notes().into_iter().fold(diagnostic, Diagnostic::note)
}
