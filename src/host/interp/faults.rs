//! Faults and warnings of launches as diagnostics: with the launch, and with advice that the kernel's text allows.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::Kernel;
use crate::compile::advice;
use crate::device::{DeviceError, Extents, Fault, FaultKind, device_diagnostic, fault_diagnostic};
use crate::host::format;
use crate::host::value::Value;

use super::machine::{Machine, Signal};

/// A kernel as the program has it and the size of its launch; `None` if the kernel that ran is made of it, with numbers of its own.
pub(super) type Ran<'a> = Option<(&'a Kernel, Extents)>;

impl Machine<'_> {
    /// Collects the device's warnings of a launch: of a kernel of the program as it is written, if its numbers are the launch's.
    pub(crate) fn take_warnings(&mut self, ran: Ran<'_>, span: Span) {
        let taken = self.interp.options.control.warnings.lock().map(|mut w| std::mem::take(&mut *w));
        for warning in taken.unwrap_or_default() {
            let warning = self.described(&warning, ran);
            self.interp.warn(warning.because(span, "launched here"));
        }
    }

    fn described(&self, fault: &Fault, ran: Ran<'_>) -> Diagnostic {
        match ran {
            Some((kernel, extents)) => advice::explained(self.program, kernel, extents, fault),
            None => fault_diagnostic(fault),
        }
    }

    pub(crate) fn say(&mut self, output: &str) {
        if !output.is_empty() {
            self.world.print(output);
        }
    }

    /// Returns a fault as a diagnostic that includes the launch, and further notes.
    pub(crate) fn fault(&mut self, fault: &Fault, ran: Ran<'_>, span: Span, notes: Vec<String>) -> Signal {
        self.say(&fault.output);
        if let FaultKind::Device(error @ (DeviceError::Earlier(_) | DeviceError::Lost(_))) = &fault.kind {
            return self.error(device_diagnostic(error, span));
        }
        let mut diagnostic = self.described(fault, ran).because(span, "launched here");
        if matches!(fault.kind, FaultKind::Device(DeviceError::OutOfMemory { .. })) {
            diagnostic.notes.extend(self.largest_arrays(1));
        }
        diagnostic.notes.extend(notes);
        self.error(diagnostic)
    }

    /// Returns a note on the variables that hold the most memory, among arrays of at least so many bytes.
    pub(super) fn largest_arrays(&self, least: usize) -> Option<String> {
        let mut held: Vec<(usize, String)> = Vec::new();
        for ((_, global), value) in self.program.globals.iter().zip(&self.interp.globals) {
            if let Some(Value::Array(array)) = value
                && array.byte_len() >= least
            {
                held.push((array.byte_len(), format!("`{}` ({})", global.name, format::describe(array))));
            }
        }
        held.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let shown: Vec<String> = held.into_iter().take(5).map(|(_, text)| text).collect();
        (!shown.is_empty()).then(|| format!("the largest arrays of variables: {}", shown.join(", ")))
    }
}
