//! Reports the faults and warnings of launches.

use crate::format;
use crate::value::HostValue;
use clk_compile::advice::FaultOrigin;
use clk_runtime::{DeviceError, Fault, FaultKind};

use super::context::{EvalContext, Signal};

impl EvalContext<'_> {
    /// Converts the device's warnings about a launch to diagnostics, and adds them to the interpreter's warnings.
    pub(crate) fn collect_device_warnings(&mut self, origin: FaultOrigin<'_>) {
        let warnings = self.interp.options.control.warnings.lock().map(|mut w| std::mem::take(&mut *w));
        for warning in warnings.unwrap_or_default() {
            self.interp.warn(origin.explain(&warning));
        }
    }

    pub(crate) fn print_output(&mut self, output: &str) {
        if !output.is_empty() {
            self.effects.print(output);
        }
    }

    /// Prints the output of a faulted launch, and returns the fault as a diagnostic with `notes`.
    pub(crate) fn fault_error(&mut self, fault: &Fault, origin: FaultOrigin<'_>, notes: Vec<String>) -> Signal {
        self.print_output(&fault.output);
        let mut diagnostic = origin.explain(fault);
        self.interp.observers.last_fault = Some(fault.kind.clone());
        if matches!(fault.kind, FaultKind::Device(DeviceError::OutOfMemory { .. })) {
            diagnostic.notes.extend(self.largest_arrays(1));
        }
        diagnostic.notes.extend(notes);
        self.error(diagnostic)
    }

    /// Returns a note that lists the script variables with the largest arrays. Arrays of fewer than `least` bytes are
    /// left out.
    pub(super) fn largest_arrays(&self, least: usize) -> Option<String> {
        let mut arrays: Vec<(usize, String)> = Vec::new();
        for ((_, global), value) in self.program.globals.iter().zip(&self.interp.globals) {
            if let Some(HostValue::Array(array)) = value
                && array.byte_len() >= least
            {
                arrays.push((array.byte_len(), format!("`{}` ({})", global.name, format::describe(array))));
            }
        }
        arrays.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let shown: Vec<String> = arrays.into_iter().take(5).map(|(_, text)| text).collect();
        (!shown.is_empty()).then(|| format!("the largest arrays of variables: {}", shown.join(", ")))
    }
}
