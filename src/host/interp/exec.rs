//! Execution of statements and blocks.

use std::sync::Arc;

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{Block, Expr, ExprKind, LocalId, OnDevice, Pattern, Stmt, StmtKind};
use crate::device::{Device, DeviceError, Wanted, device_diagnostic};
use crate::host::value::{Range, Value};
use crate::lang::scalar::Scalar;

use super::frame::Frame;
use super::machine::{Eval, Last, Machine, Signal};

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
    /// Executes a block and returns its value.
    pub(crate) fn block(&mut self, frame: &mut Frame, block: &Block) -> Eval {
        for stmt in &block.stmts {
            self.stmt(frame, stmt)?;
        }
        match &block.tail {
            Some(tail) => self.eval(frame, tail),
            None => Ok(Value::Unit),
        }
    }

    /// Executes the statements of a chunk; returns the value of the last if it is an expression.
    pub(crate) fn chunk(&mut self, frame: &mut Frame, block: &Block) -> Eval<Option<Last>> {
        let mut last = None;
        for stmt in &block.stmts {
            last = None;
            match &stmt.kind {
                StmtKind::Expr { expr, quiet } => {
                    self.interp.at = stmt.span;
                    let value = self.eval(frame, expr)?;
                    last = Some(Last { value, ty: expr.ty.clone(), quiet: *quiet });
                }
                _ => self.stmt(frame, stmt)?,
            }
        }
        if let Some(tail) = &block.tail {
            let value = self.eval(frame, tail)?;
            last = Some(Last { value, ty: tail.ty.clone(), quiet: false });
        }
        Ok(last.filter(|last| !matches!(last.value, Value::Unit)))
    }

    fn stmt(&mut self, frame: &mut Frame, stmt: &Stmt) -> Eval<()> {
        self.interp.at = stmt.span;
        match &stmt.kind {
            StmtKind::Let { pattern, value: Some(expr), declared } => {
                let mut value = self.eval(frame, expr)?;
                if let Some(declared) = declared {
                    value = self.declared(frame, declared, pattern, value, expr.span)?;
                }
                self.bind(frame, pattern, value, expr.span)
            }
            StmtKind::Let { value: None, .. } => Ok(()),
            StmtKind::LocalArray { local, extents, init } => {
                let value = self.local_array(frame, *local, extents, init, stmt.span)?;
                frame.set(*local, value);
                Ok(())
            }
            StmtKind::Assign { place, op, value } => self.assign(frame, place, *op, value),
            StmtKind::Expr { expr, .. } => self.eval(frame, expr).map(drop),
            StmtKind::For { var, iter, body, .. } => self.for_loop(frame, *var, iter, body),
            StmtKind::While { cond, body, .. } => self.while_loop(frame, Some(cond), body),
            StmtKind::Loop { body } => self.while_loop(frame, None, body),
            StmtKind::Break => Err(Signal::Break),
            StmtKind::Continue => Err(Signal::Continue),
            StmtKind::Return(value) => {
                let value = match value {
                    Some(expr) => (self.eval(frame, expr)?, expr.span),
                    None => (Value::Unit, stmt.span),
                };
                Err(Signal::Return(value.0, value.1))
            }
            StmtKind::On { device, body } => self.on(frame, device, body, stmt),
            StmtKind::Batch { body } => self.batch(frame, body, stmt.span),
            StmtKind::Shared { .. } => Err(self.broken(stmt.span, "`shared` reached the host")),
        }
    }

    fn batch(&mut self, frame: &mut Frame, body: &Block, span: Span) -> Eval<()> {
        let batch = Batch::begin(self.interp.options.device.clone());
        let result = self.block(frame, body);
        let ended = batch.end();
        result?;
        ended.map_err(|error| self.error(device_diagnostic(&error, span)))
    }

    fn on(&mut self, frame: &mut Frame, device: &OnDevice, body: &Block, stmt: &Stmt) -> Eval<()> {
        let wanted = match device {
            OnDevice::Sim => Wanted::Sim,
            OnDevice::Gpu(None) => Wanted::Gpu(None),
            OnDevice::Gpu(Some(number)) => match u32::try_from(self.integer(frame, number)?) {
                Ok(number) => Wanted::Gpu(Some(number)),
                Err(_) => {
                    let diagnostic = Diagnostic::error("E0595", "GPUs are numbered from 0");
                    return Err(self.error(diagnostic.at(number.span, "this is no such number")));
                }
            },
        };
        let opened = match &self.interp.devices {
            Some(devices) => devices.open(wanted),
            None => Err(DeviceError::Unavailable { device: "gpu".into(), why: "there are no devices here".into() }),
        };
        let device = opened.map_err(|error| self.error(device_diagnostic(&error, stmt.span)))?;
        if !self.interp.visited.iter().any(|known| Arc::ptr_eq(known, &device)) {
            self.interp.visited.push(device.clone());
        }
        let outer = self.interp.use_device(device);
        let result = self.block(frame, body);
        self.interp.use_device(outer);
        result.map(drop)
    }

    fn for_loop(&mut self, frame: &mut Frame, var: LocalId, iter: &Expr, body: &Block) -> Eval<()> {
        let items = match self.eval(frame, iter)? {
            Value::Range(range) => {
                let scalar = match &iter.kind {
                    ExprKind::Range { start, end, .. } => self.range_scalar(frame, start, end)?,
                    _ => Scalar::I32,
                };
                return self.count(frame, var, range, scalar, iter.span, body);
            }
            Value::Str(text) => return self.characters(frame, var, &text, body),
            items => items,
        };
        for i in 0..self.items_of(&items, iter.span)? {
            frame.set(var, self.item_of(&items, i, iter.span)?);
            if self.iteration(frame, body)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Executes a loop over a range.
    fn count(
        &mut self,
        frame: &mut Frame,
        var: LocalId,
        range: Range,
        scalar: Scalar,
        span: Span,
        body: &Block,
    ) -> Eval<()> {
        let Range { start, end: Some(last), inclusive, step } = range else {
            let diagnostic = Diagnostic::error("E0541", "this range has no end, so the loop would have none");
            return Err(self.error(diagnostic.at(span, "counted through here").help("give it one: `0..n`")));
        };
        let mut i = start.unwrap_or(0);
        loop {
            let more = match (step > 0, inclusive) {
                (true, false) => i < last,
                (true, true) => i <= last,
                (false, false) => i > last,
                (false, true) => i >= last,
            };
            if !more {
                return Ok(());
            }
            let Some(item) = Value::Int(i.into()).adapt(scalar) else {
                let title = format!("the loop counts to {i}, which is no `{scalar}`");
                let diagnostic = Diagnostic::error("E0541", title).at(span, "counted through here");
                return Err(self.error(diagnostic.help("count in a wider type: `for i in 0i64..n`")));
            };
            frame.set(var, Value::Scalar(item));
            if self.iteration(frame, body)? {
                return Ok(());
            }
            i = match i.checked_add(step) {
                Some(next) => next,
                None => return Ok(()),
            };
        }
    }

    fn while_loop(&mut self, frame: &mut Frame, cond: Option<&Expr>, body: &Block) -> Eval<()> {
        loop {
            if let Some(cond) = cond
                && !self.truth(frame, cond)?
            {
                return Ok(());
            }
            if self.iteration(frame, body)? {
                return Ok(());
            }
            if cond.is_none() {
                self.poll(body.span)?;
            }
        }
    }

    /// Executes one iteration of a loop; returns true after `break`.
    pub(super) fn iteration(&mut self, frame: &mut Frame, body: &Block) -> Eval<bool> {
        self.poll(body.span)?;
        match self.block(frame, body) {
            Ok(_) | Err(Signal::Continue) => Ok(false),
            Err(Signal::Break) => Ok(true),
            Err(other) => Err(other),
        }
    }

    /// Binds a pattern such as `let (a, b) = …`.
    pub(crate) fn bind(&mut self, frame: &mut Frame, pattern: &Pattern, value: Value, at: Span) -> Eval<()> {
        match pattern {
            Pattern::Local(local) => frame.set(*local, value),
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
