//! Evaluation of nodes: the statements and expressions that code leaves to operations on values.

use std::sync::Arc;

use crate::base::diag::{Diagnostic, Severity};
use crate::base::source::Span;
use crate::check::typed::{Expr, OnDevice, Pattern};
use crate::device::{Device, DeviceError, Wanted, device_diagnostic, size};
use crate::host::value::Value;

use super::code::{Code, Node, NodeKind};
use super::frame::Frame;
use super::machine::{Eval, Machine};

/// An open batch on a device, which is ended on drop.
struct Batch(Option<Arc<dyn Device>>);

impl Batch {
    fn begin(device: Arc<dyn Device>) -> Batch {
        device.begin_batch();
        Batch(Some(device))
    }

    fn end(mut self) -> Result<(), DeviceError> {
        self.0.take().map_or(Ok(()), |device| device.end_batch())
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // Errors are ignored: the one that caused the drop is reported.
        let _ = self.0.take().map(|device| device.end_batch());
    }
}

impl Machine<'_> {
    /// Evaluates a node.
    pub(super) fn node(&mut self, frame: &mut Frame, code: &Code, node: u32) -> Eval {
        let node = &code.nodes[node as usize];
        let outer = std::mem::replace(&mut self.interp.at, node.at);
        let _standing = self.standing_at(node.at);
        self.reached(node.at);
        let value = self.node_value(frame, node);
        self.reached(outer);
        self.count_copies(node.at);
        if !self.interp.spilled {
            self.note_spilled(node.at);
        }
        value
    }

    /// Notes for the way back over tapes which statement is executed.
    fn reached(&self, at: Span) {
        for tape in &self.interp.tapes {
            tape.reached(at);
        }
    }

    /// Counts the copies since the last look for a statement.
    pub(super) fn count_copies(&mut self, at: Span) {
        if let Some(copies) = &mut self.interp.copies {
            copies.look(&*self.interp.options.device, at);
        }
    }

    /// Notes, once, that arrays were moved to the host.
    fn note_spilled(&mut self, at: Span) {
        let device = &self.interp.options.device;
        let bytes = device.spilled();
        if bytes == 0 {
            return;
        }
        self.interp.spilled = true;
        let title = format!("the memory of {} is full: arrays are moved to the host", device.name());
        let mut note = Diagnostic::new(Severity::Note, "W0607", title).at(at, "there was no room for an array of this");
        note.notes.push(format!("{} were moved so far; they are brought back when a kernel needs them", size(bytes)));
        note.notes.extend(self.largest_arrays(1));
        self.interp
            .warn(note.help("let go of what is not needed any more (`x = zeros(0)`), or work on a part at a time"));
    }

    fn node_value(&mut self, frame: &mut Frame, node: &Node) -> Eval {
        match &node.kind {
            NodeKind::Expr(expr) => return self.eval(frame, expr),
            NodeKind::Let { pattern, declared, value: expr } => {
                let mut value = self.eval(frame, expr)?;
                if let Some(declared) = declared {
                    value = self.declared(frame, declared, pattern, value, expr.span)?;
                }
                self.bind(frame, pattern, value, expr.span)?;
            }
            NodeKind::LocalArray { local, extents, init } => {
                let value = self.local_array(frame, *local, extents, init, node.at)?;
                self.set_local(frame, *local, value, node.at)?;
            }
            NodeKind::Assign { place, op, value } => self.assign(frame, place, *op, value)?,
            NodeKind::On { device, body } => self.on(frame, device, body, node.at)?,
            NodeKind::Batch { body } => self.batch(frame, body, node.at)?,
        }
        Ok(Value::Unit)
    }

    fn batch(&mut self, frame: &mut Frame, body: &Expr, span: Span) -> Eval<()> {
        let batch = Batch::begin(self.interp.options.device.clone());
        let result = self.eval(frame, body);
        let ended = batch.end();
        result?;
        ended.map_err(|error| self.error(device_diagnostic(&error, span)))
    }

    fn on(&mut self, frame: &mut Frame, device: &OnDevice, body: &Expr, span: Span) -> Eval<()> {
        let number = match device.number() {
            None => None,
            Some(number) => match u32::try_from(self.integer(frame, number)?) {
                Ok(number) => Some(number),
                Err(_) => {
                    let diagnostic = Diagnostic::error("E0595", "devices are numbered from 0");
                    return Err(self.error(diagnostic.at(number.span, "this is no such number")));
                }
            },
        };
        let wanted = match device {
            OnDevice::Sim(_) => Wanted::Sim(number),
            OnDevice::Gpu(_) => Wanted::Gpu(number),
        };
        let opened = match &self.interp.devices {
            Some(devices) => devices.open(wanted),
            None => Err(DeviceError::Unavailable { device: "gpu".into(), why: "there are no devices here".into() }),
        };
        let device = opened.map_err(|error| self.error(device_diagnostic(&error, span)))?;
        if !self.interp.visited.iter().any(|known| Arc::ptr_eq(known, &device)) {
            self.interp.visited.push(device.clone());
        }
        let outer = self.interp.use_device(device);
        let result = self.eval(frame, body);
        self.interp.use_device(outer);
        result.map(drop)
    }

    /// Binds a pattern such as `let (a, b) = …`.
    pub(crate) fn bind(&mut self, frame: &mut Frame, pattern: &Pattern, value: Value, at: Span) -> Eval<()> {
        self.note_defined(frame, pattern);
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
                    Value::Tuple(values) if values.len() == parts.len() => values,
                    other => {
                        let found = other.type_name();
                        let title = format!("`{found}` does not come apart into {} names", parts.len());
                        let diagnostic = Diagnostic::error("E0320", title).at(at, format!("this is `{found}`"));
                        return Err(self.error(diagnostic));
                    }
                };
                for (part, value) in parts.iter().zip(values) {
                    self.bind(frame, part, value, at)?;
                }
            }
        }
        Ok(())
    }
}
