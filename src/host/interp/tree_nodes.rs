//! Evaluates tree nodes ([`TreeNode`]): the statements and expressions that do not compile to
//! scalar instructions.

use std::sync::Arc;

use crate::value::HostValue;
use clk_base::diag::{Diagnostic, Severity};
use clk_base::source::Span;
use clk_check::typed::{Expr, OnDevice, Pattern};
use clk_runtime::{Device, DeviceError, DeviceSelector, size};

use super::code::{HostCode, NodeKind, TreeNode};
use super::context::{Eval, EvalContext};
use super::frame::HostFrame;

/// Guard of an open batch of launches on a device. Dropping the guard ends the batch.
struct OpenBatch(Option<Arc<dyn Device>>);

impl OpenBatch {
    fn begin(device: Arc<dyn Device>) -> OpenBatch {
        device.begin_batch();
        OpenBatch(Some(device))
    }

    fn end(mut self) -> Result<(), DeviceError> {
        self.0.take().map_or(Ok(()), |device| device.end_batch())
    }
}

impl Drop for OpenBatch {
    fn drop(&mut self) {
        // The guard is dropped because of another error, which is reported instead of an error of `end_batch`.
        let _ = self.0.take().map(|device| device.end_batch());
    }
}

impl EvalContext<'_> {
    /// Evaluates the tree node with index `node`.
    pub(super) fn eval_node(&mut self, frame: &mut HostFrame, code: &HostCode, node: u32) -> Eval {
        let node = &code.nodes[node as usize];
        let outer = std::mem::replace(&mut self.interp.stack.span, node.stmt_span);
        let outer_location = self.exec.replace_location(node.stmt_span);
        self.enter_tape_statement(node.stmt_span);
        let value = self.eval_node_kind(frame, node);
        self.exec.replace_location(outer_location);
        self.enter_tape_statement(outer);
        self.count_copies(node.stmt_span);
        if !self.interp.warning_log.has_noted_spill {
            self.note_spill(node.stmt_span);
        }
        value
    }

    /// Sets the current statement of all active tapes, so that errors of the reverse sweep can show it.
    fn enter_tape_statement(&self, at: Span) {
        for tape in &self.interp.derivatives.tapes {
            tape.enter_statement(at);
        }
    }

    /// If copies are counted: attributes the host-device copies since the previous call to the statement at `at`.
    pub(super) fn count_copies(&mut self, at: Span) {
        if let Some(copies) = &mut self.interp.copy_statistics {
            copies.attribute_to(&*self.interp.options.device, at);
        }
    }

    /// Reports, once per run, that arrays were moved to the host because device memory is full.
    fn note_spill(&mut self, at: Span) {
        let device = &self.interp.options.device;
        let bytes = device.spilled();
        if bytes == 0 {
            return;
        }
        self.interp.warning_log.has_noted_spill = true;
        let title = format!("the memory of {} is full: arrays are moved to the host", device.name());
        let mut note = Diagnostic::new(Severity::Note, "W0607", title).at(at, "memory ran out at this statement");
        note.notes.push(format!("{} were moved so far; they move back when a kernel needs them", size(bytes)));
        note.notes.extend(self.largest_arrays(1));
        self.interp
            .warn(note.help("free arrays that are no longer needed (`x = zeros(0)`), or process one part at a time"));
    }

    fn eval_node_kind(&mut self, frame: &mut HostFrame, node: &TreeNode) -> Eval {
        match &node.kind {
            NodeKind::Expr(expr) => return self.eval(frame, expr),
            NodeKind::Let { pattern, declared, value: expr } => {
                let mut value = self.eval(frame, expr)?;
                if let Some(declared) = declared {
                    value = self.check_declared(frame, declared, pattern, value, expr.span)?;
                }
                self.bind_pattern(frame, pattern, value, expr.span)?;
            }
            NodeKind::LocalArray { local, extents, init } => {
                let value = self.local_array(frame, *local, extents, init, node.stmt_span)?;
                self.set_local(frame, *local, value, node.stmt_span)?;
            }
            NodeKind::Assign { place, op, value } => self.assign(frame, place, *op, value)?,
            NodeKind::On { device, body } => self.run_on_device(frame, device, body, node.stmt_span)?,
            NodeKind::Batch { body } => self.run_batch(frame, body, node.stmt_span)?,
        }
        Ok(HostValue::Unit)
    }

    fn run_batch(&mut self, frame: &mut HostFrame, body: &Expr, span: Span) -> Eval<()> {
        let batch = OpenBatch::begin(self.interp.options.device.clone());
        let result = self.eval(frame, body);
        let ended = batch.end();
        result?;
        ended.map_err(|error| self.device_error(&error, span))
    }

    fn run_on_device(&mut self, frame: &mut HostFrame, device: &OnDevice, body: &Expr, span: Span) -> Eval<()> {
        let number = match device.number() {
            None => None,
            Some(number) => match u32::try_from(self.eval_integer(frame, number)?) {
                Ok(number) => Some(number),
                Err(_) => {
                    let diagnostic = Diagnostic::error("E0595", "devices are numbered from 0");
                    return Err(self.error(diagnostic.at(number.span, "this is no such number")));
                }
            },
        };
        let selector = match device {
            OnDevice::Sim(_) => DeviceSelector::Sim(number),
            OnDevice::Gpu(_) => DeviceSelector::Gpu(number),
        };
        let opened = match &self.interp.device_pool.available {
            Some(devices) => devices.open(selector),
            None => Err(DeviceError::Unavailable { device: "gpu".into(), why: "there are no devices here".into() }),
        };
        let device = opened.map_err(|error| self.device_error(&error, span))?;
        if !self.interp.device_pool.used.iter().any(|known| Arc::ptr_eq(known, &device)) {
            self.interp.device_pool.used.push(device.clone());
        }
        let outer = self.switch_device(device);
        let result = self.eval(frame, body);
        self.switch_device(outer);
        result.map(drop)
    }

    /// Binds a pattern such as `let (a, b) = …`.
    pub(crate) fn bind_pattern(
        &mut self,
        frame: &mut HostFrame,
        pattern: &Pattern,
        value: HostValue,
        at: Span,
    ) -> Eval<()> {
        self.trace_definition(frame, pattern);
        match pattern {
            Pattern::Local(local) => self.set_local(frame, *local, value, at)?,
            Pattern::Global(global) => {
                if let Some(slot) = self.interp.globals.get_mut(global.index()) {
                    *slot = Some(value);
                }
            }
            Pattern::Discard => {}
            Pattern::Tuple(parts) => {
                let values = match value {
                    HostValue::Tuple(values) if values.len() == parts.len() => values,
                    other => {
                        let actual = other.type_name();
                        let title = format!("`{actual}` can't be unpacked into {} names", parts.len());
                        let diagnostic = Diagnostic::error("E0320", title).at(at, format!("this is `{actual}`"));
                        return Err(self.error(diagnostic));
                    }
                };
                for (part, value) in parts.iter().zip(values) {
                    self.bind_pattern(frame, part, value, at)?;
                }
            }
        }
        Ok(())
    }
}
