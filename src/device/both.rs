//! Every launch on two devices, the results compared: bit for bit, unless the kernel calls functions that are only exact within
//! some ULPs, or adds floats in no fixed order.

use std::sync::Arc;

use super::storage::Storage;
use super::{Arg, Control, Device, DeviceError, Executable, Extents, Fault, FaultKind, Output, Statistics};
use crate::base::aligned::AlignedBytes;
use crate::base::source::{Sources, Span};
use crate::ir::Prepared;
use crate::ir::def::{Access, ExprKind, Kernel, KernelParam, Layout, Module, StmtKind};
use crate::ir::visit;
use crate::lang::ops::{AtomicOp, WarpOp};
use crate::lang::scalar::{Scalar, Value, format};

/// Two devices as one. The first one's results count.
pub struct Both {
    reference: Arc<dyn Device>,
    other: Arc<dyn Device>,
    exact: bool,
}

impl Both {
    /// `exact` says that neither was told to trade bits for speed.
    pub fn new(reference: Arc<dyn Device>, other: Arc<dyn Device>, exact: bool) -> Both {
        Both { reference, other, exact }
    }
}

impl Device for Both {
    fn name(&self) -> String {
        format!("{} and {}", self.reference.name(), self.other.name())
    }

    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable> {
        self.load_named(kernel, &Sources::default())
    }

    fn load_named(&self, kernel: Arc<Prepared>, sources: &Sources) -> Arc<dyn Executable> {
        Arc::new(Pair {
            names: [self.reference.name(), self.other.name()],
            reference: self.reference.load_named(kernel.clone(), sources),
            other: self.other.load_named(kernel.clone(), sources),
            approximate: !self.exact || is_approximate(&kernel.module),
            kernel,
        })
    }

    fn finish(&self) -> Result<(), DeviceError> {
        self.other.finish()
    }

    fn statistics(&self) -> Statistics {
        self.other.statistics()
    }
}

/// How two devices differ about a launch.
#[derive(Clone, Debug, PartialEq)]
pub enum Disagreement {
    Values {
        devices: [String; 2],
        array: String,
        /// Of the first element that differs.
        index: Vec<u32>,
        /// `.pos.x` of a struct's field; else empty.
        field: String,
        values: [String; 2],
        /// Elements that differ, and all there are.
        differing: u64,
        elements: u64,
        /// Whether small differences were allowed.
        approximate: bool,
    },
    /// One device reports a fault that the other does not, or another one.
    Faults { devices: [String; 2], faults: [String; 2] },
    /// The first line that only one of them printed.
    Output { devices: [String; 2], lines: [String; 2] },
}

impl Disagreement {
    pub fn title(&self) -> String {
        match self {
            Disagreement::Values { array, index, field, devices: [a, b], .. } => {
                let index: Vec<String> = index.iter().map(u32::to_string).collect();
                format!("`{array}[{}]{field}` is not the same on `{a}` and `{b}`", index.join(", "))
            }
            Disagreement::Faults { devices: [a, b], .. } => format!("`{a}` and `{b}` report different faults"),
            Disagreement::Output { devices: [a, b], .. } => format!("`{a}` and `{b}` print different lines"),
        }
    }

    pub fn notes(&self) -> Vec<String> {
        let each = |devices: &[String; 2], what: &[String; 2]| {
            devices.iter().zip(what).map(|(device, what)| format!("{device}: {what}")).collect::<Vec<_>>()
        };
        match self {
            Disagreement::Values { devices, values, differing, elements, approximate, .. } => {
                let mut notes = each(devices, values);
                notes.push(format!("{differing} of {elements} elements differ"));
                if *approximate {
                    notes.push("beyond what functions with an error of some ULPs explain".into());
                }
                notes
            }
            Disagreement::Faults { devices, faults } => each(devices, faults),
            Disagreement::Output { devices, lines } => each(devices, lines),
        }
    }
}

struct Pair {
    names: [String; 2],
    reference: Arc<dyn Executable>,
    other: Arc<dyn Executable>,
    approximate: bool,
    kernel: Arc<Prepared>,
}

impl Executable for Pair {
    fn expect_blocks(&self, block: [u32; 3]) {
        self.reference.expect_blocks(block);
        self.other.expect_blocks(block);
    }

    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>> {
        let kernel = &self.kernel.module.kernel;
        let mut copies = Vec::with_capacity(args.len());
        for arg in args.iter() {
            copies.push(copy(arg).map_err(|error| FaultKind::Device(error).of_launch(kernel.span))?);
        }
        // Whose fault it is has to be known before the other begins.
        let control = &Control { wait: true, ..control.clone() };
        let others = {
            let mut given: Vec<Arg<'_>> = args.iter().zip(&mut copies).map(|(arg, copy)| again(arg, copy)).collect();
            self.other.launch(extents, &mut given, control)
        };
        let first = self.reference.launch(extents, args, control);
        self.same_end(first, others).and_then(|output| {
            for (position, (arg, copy)) in args.iter().zip(&copies).enumerate() {
                if let Some(copy) = copy {
                    self.same_values(position, arg, copy)?;
                }
            }
            Ok(output)
        })
    }
}

impl Pair {
    /// Both ended well and printed the same, or with the same fault.
    fn same_end(
        &self,
        first: Result<Output, Box<Fault>>,
        other: Result<Output, Box<Fault>>,
    ) -> Result<Output, Box<Fault>> {
        let devices = || self.names.clone();
        let span = self.kernel.module.kernel.span;
        let end = |result: &Result<Output, Box<Fault>>| match result {
            Ok(_) => "no fault".to_string(),
            Err(fault) => fault.to_string(),
        };
        match (first, other) {
            (_, Err(fault)) if matches!(fault.kind, FaultKind::Device(_)) => Err(fault),
            (Ok(a), Ok(b)) => match different_lines(&a, &b) {
                Some(lines) if !self.approximate => {
                    Err(disagreement(Disagreement::Output { devices: devices(), lines }, span))
                }
                _ => Ok(a),
            },
            // Which of the threads at fault comes first is left open.
            (Err(a), Err(b)) if place(&a) == place(&b) => Err(a),
            (a, b) => {
                let faults = [end(&a), end(&b)];
                let span = [&a, &b].into_iter().find_map(|r| r.as_ref().err().map(|f| f.span)).unwrap_or(span);
                Err(disagreement(Disagreement::Faults { devices: devices(), faults }, span))
            }
        }
    }

    fn same_values(&self, position: usize, arg: &Arg<'_>, copy: &Storage) -> Result<(), Box<Fault>> {
        let (bytes, shape) = match arg {
            Arg::Write { bytes, shape } => (&bytes[..], shape),
            Arg::ArrayMut { storage, shape } => (storage.bytes(), shape),
            _ => return Ok(()),
        };
        let span = self.kernel.module.kernel.span;
        let theirs = copy.fetch().map_err(|error| FaultKind::Device(error).of_launch(span))?;
        if bytes == theirs {
            return Ok(());
        }
        let Some((name, layout)) = array(&self.kernel.module, position) else { return Ok(()) };
        match compare(bytes, theirs, layout, self.approximate) {
            None => Ok(()),
            Some(found) => Err(disagreement(
                Disagreement::Values {
                    devices: self.names.clone(),
                    array: name.to_string(),
                    index: unravel(found.element, shape),
                    field: found.field,
                    values: found.values,
                    differing: found.differing,
                    elements: shape.iter().map(|&n| u64::from(n)).product(),
                    approximate: self.approximate,
                },
                span,
            )),
        }
    }
}

fn disagreement(difference: Disagreement, span: Span) -> Box<Fault> {
    FaultKind::Disagreement(Box::new(difference)).of_launch(span)
}

/// Where a fault is and of which kind.
fn place(fault: &Fault) -> (Span, std::mem::Discriminant<FaultKind>) {
    (fault.span, std::mem::discriminant(&fault.kind))
}

/// What the other device writes to.
fn copy(arg: &Arg<'_>) -> Result<Option<Storage>, DeviceError> {
    let copied = match arg {
        Arg::Write { bytes, .. } => AlignedBytes::copy_of(bytes).map(Storage::of_bytes),
        Arg::ArrayMut { storage, .. } => storage.duplicate(),
        _ => return Ok(None),
    };
    let wanted = match arg {
        Arg::Write { bytes, .. } => bytes.len(),
        Arg::ArrayMut { storage, .. } => storage.len(),
        _ => 0,
    } as u64;
    copied.map(Some).ok_or(DeviceError::NoHostMemory { wanted })
}

/// The argument for the other device.
fn again<'a>(arg: &'a Arg<'_>, copy: &'a mut Option<Storage>) -> Arg<'a> {
    match (arg, copy) {
        (Arg::Value(values), _) => Arg::Value(values.clone()),
        (Arg::Read { bytes, shape }, _) => Arg::Read { bytes, shape: shape.clone() },
        (Arg::Array { storage, shape }, _) => Arg::Array { storage, shape: shape.clone() },
        (Arg::Write { shape, .. } | Arg::ArrayMut { shape, .. }, Some(storage)) => {
            Arg::ArrayMut { storage, shape: shape.clone() }
        }
        (Arg::Write { bytes, shape }, None) => Arg::Read { bytes, shape: shape.clone() },
        (Arg::ArrayMut { storage, shape }, None) => Arg::Array { storage, shape: shape.clone() },
    }
}

/// Name and element layout of the array parameter at a position.
fn array(module: &Module, position: usize) -> Option<(&str, &Layout)> {
    let Kernel { params, body, .. } = &module.kernel;
    match params.get(position)? {
        KernelParam::Array { name, memory, access: Access::Out | Access::InOut } => {
            Some((name, &module.functions.get(*body)?.memories.get(*memory)?.layout))
        }
        _ => None,
    }
}

/// The lines that one output has and the other does not, the first of each; blocks print in no fixed order.
fn different_lines(a: &str, b: &str) -> Option<[String; 2]> {
    if a == b {
        return None;
    }
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        lines.sort();
        lines
    };
    let (a, b) = (sorted(a), sorted(b));
    let shown = |line: Option<&String>| line.cloned().unwrap_or_else(|| "(nothing more)".into());
    (0..a.len().max(b.len())).find(|&k| a.get(k) != b.get(k)).map(|k| [shown(a.get(k)), shown(b.get(k))])
}

struct Found {
    element: usize,
    field: String,
    values: [String; 2],
    differing: u64,
}

/// The first element that differs, and how many do.
fn compare(a: &[u8], b: &[u8], layout: &Layout, approximate: bool) -> Option<Found> {
    let size = layout.size.max(1);
    let slack = if approximate {
        layout.leaves.iter().map(|leaf| slack(a, size, leaf.offset, leaf.ty.scalar())).collect()
    } else {
        vec![]
    };
    let mut found: Option<Found> = None;
    for (element, (a, b)) in a.chunks_exact(size).zip(b.chunks_exact(size)).enumerate() {
        if a == b {
            continue;
        }
        let mut differs = false;
        for (k, leaf) in layout.leaves.iter().enumerate() {
            let ty = leaf.ty.scalar();
            for lane in 0..usize::from(leaf.ty.lanes()) {
                let at = leaf.offset + lane * ty.size();
                let value = |bytes: &[u8]| Value::from_bytes(ty, bytes.get(at..at + ty.size()).unwrap_or(&[]));
                let (x, y) = (value(a), value(b));
                if same(x, y, slack.get(k).copied()) {
                    continue;
                }
                differs = true;
                if found.is_none() {
                    let lane = if leaf.ty.lanes() > 1 { [".x", ".y", ".z", ".w"][lane.min(3)] } else { "" };
                    let path = if leaf.path.is_empty() { String::new() } else { format!(".{}", leaf.path) };
                    let values = [x, y].map(format::plain);
                    found = Some(Found { element, field: path + lane, values, differing: 0 });
                }
            }
        }
        if let (true, Some(found)) = (differs, &mut found) {
            found.differing += 1;
        }
    }
    found
}

/// What two values may differ by in a kernel that is not exact: a share of the larger one, and of the array's largest, since
/// differences of large numbers are small.
#[derive(Clone, Copy)]
struct Slack {
    relative: f64,
    absolute: f64,
}

fn slack(bytes: &[u8], size: usize, offset: usize, ty: Scalar) -> Slack {
    let relative = match ty {
        Scalar::F64 => 1e-10,
        Scalar::F32 => 1e-4,
        Scalar::F16 => 1e-2,
        Scalar::Bf16 => 5e-2,
        // A float that was rounded to an integer may be rounded the other way.
        _ => return Slack { relative: 0.0, absolute: 1.0 },
    };
    let values = bytes.chunks_exact(size).filter_map(|e| e.get(offset..offset + ty.size()));
    let magnitudes = values.map(|e| Value::from_bytes(ty, e).as_f64().abs()).filter(|v| v.is_finite());
    Slack { relative, absolute: relative * 0.1 * magnitudes.fold(0.0, f64::max) }
}

fn same(a: Value, b: Value, slack: Option<Slack>) -> bool {
    if a.bits == b.bits {
        return true;
    }
    if a.ty == Scalar::Bool {
        return false;
    }
    let (x, y) = (a.as_f64(), b.as_f64());
    // The bits of a NaN say nothing.
    if a.ty.is_float() && x.is_nan() && y.is_nan() {
        return true;
    }
    slack.is_some_and(|s| (x - y).abs() <= s.absolute.max(s.relative * x.abs().max(y.abs())))
}

/// The indices of the element at a row-major position.
fn unravel(mut position: usize, shape: &[u32]) -> Vec<u32> {
    let mut index = vec![0; shape.len()];
    for (place, &extent) in index.iter_mut().zip(shape).rev() {
        let extent = (extent as usize).max(1);
        *place = (position % extent) as u32;
        position /= extent;
    }
    index
}

/// Whether the kernel computes what another device may round differently.
pub fn is_approximate(module: &Module) -> bool {
    module.functions.iter().any(|(_, function)| {
        let mut approximate = function.exprs.iter().any(|(_, expr)| {
            let float = expr.ty.scalar().is_float();
            match &expr.kind {
                ExprKind::Math { function, .. } => float && !function.is_exact(),
                ExprKind::Binary { op: crate::ir::def::BinOp::Pow, .. } => float,
                _ => false,
            }
        });
        visit::each_stmt(&function.body, &mut |stmt: &crate::ir::def::Stmt| match &stmt.kind {
            StmtKind::Atomic { op: AtomicOp::Add | AtomicOp::Sub, value, .. }
            | StmtKind::Warp { op: WarpOp::ReduceAdd, value, .. } => {
                approximate |= function.exprs.get(*value).is_some_and(|e| e.ty.scalar().is_float());
            }
            _ => {}
        });
        approximate
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_found_counted_and_named() {
        let layout = Layout::plain(crate::ir::def::Ty::Vector(Scalar::F32, 2));
        let a: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let b: Vec<u8> = [1.0f32, 2.0, 3.0, 4.5, 7.0, 6.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert!(compare(&a, &a, &layout, false).is_none());
        let found = compare(&a, &b, &layout, false).expect("they differ");
        assert_eq!((found.element, found.field.as_str(), found.differing), (1, ".y", 2));
        assert_eq!(found.values, ["4.0", "4.5"]);
        assert_eq!(unravel(5, &[2, 3]), [1, 2]);
    }

    #[test]
    fn slack_is_small_and_only_for_kernels_that_need_it() {
        let layout = Layout::plain(crate::ir::def::Ty::Scalar(Scalar::F32));
        let bytes = |values: [f32; 2]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let (a, near, far) = (bytes([1.0, 1e-8]), bytes([1.00001, 1e-7]), bytes([1.01, 1e-8]));
        assert!(compare(&a, &near, &layout, false).is_some());
        assert!(compare(&a, &near, &layout, true).is_none());
        assert!(compare(&a, &far, &layout, true).is_some());
        let (nan, other_nan) = (bytes([f32::NAN, 0.0]), bytes([f32::from_bits(0xffff_ffff), 0.0]));
        assert!(compare(&nan, &other_nan, &layout, false).is_none());
        assert!(compare(&nan, &a, &layout, true).is_some());
    }

    #[test]
    fn printed_lines_may_come_in_any_order() {
        assert_eq!(different_lines("a\nb\n", "b\na\n"), None);
        assert_eq!(different_lines("a\n", "a\nb\n"), Some(["(nothing more)".into(), "b".into()]));
    }
}
