//! Differences between the results of two devices for the same launch, and the messages about them. A difference is
//! either a disagreement (a bug) or a variation that the language permits.

use clk_base::source::Span;

/// The error of inexact functions that two devices may differ by, in ULPs. With few exceptions, it is the largest error
/// of CUDA's single-precision functions.
pub const FUNCTION_ULPS: u64 = 4;

/// An array whose final contents differ between two devices. Describes the first element that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct DifferingArray {
    pub array: String,
    pub index: Vec<u32>,
    /// The path of the differing field of a struct, such as `.pos.x`; otherwise empty.
    pub field: String,
    pub values: [String; 2],
    /// Number of elements that differ.
    pub differing: u64,
    /// Number of elements of the array.
    pub elements: u64,
}

impl DifferingArray {
    fn name(&self) -> String {
        let index: Vec<String> = self.index.iter().map(u32::to_string).collect();
        format!("`{}[{}]{}`", self.array, index.join(", "), self.field)
    }

    fn notes(&self, devices: &[String; 2]) -> Vec<String> {
        let mut notes = per_device(devices, &self.values);
        notes.push(format!("{} of {} elements differ", self.differing, self.elements));
        notes
    }
}

/// The result of the search for the first operation that two devices execute differently.
#[derive(Clone, Debug, PartialEq)]
pub enum FirstDivergence {
    At(Box<DivergentOp>),
    /// The devices agree if the kernel is instrumented to record the values of this thread.
    HiddenByRecording(String),
    /// The devices disagree, but all values that this thread recorded are equal. The number is the number of recorded
    /// values.
    NotFound(String, usize),
}

/// An operation of a thread that two devices execute differently.
#[derive(Clone, Debug, PartialEq)]
pub struct DivergentOp {
    pub span: Span,
    pub thread: String,
    pub kind: DivergenceKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DivergenceKind {
    /// An operation with equal operands has different results on the two devices.
    Computation { values: [String; 2], operands: Vec<String> },
    /// Both devices stored the same value in an element, but later load different values from it.
    Load { values: [String; 2] },
    /// The devices continue at different statements after this operation.
    ControlFlow,
}

/// A difference between the results of two devices that the language does not permit.
#[derive(Clone, Debug, PartialEq)]
pub enum Disagreement {
    Values {
        devices: [String; 2],
        values: DifferingArray,
        /// Whether the comparison allowed small differences.
        approximate: bool,
        /// Whether the result depends on the order of threads although the kernel has no atomic operation, which
        /// indicates a data race.
        racy: bool,
        /// The first divergence, if it was found.
        divergence: Option<FirstDivergence>,
    },
    /// Only one device reports a fault, or the devices report different faults.
    Faults { devices: [String; 2], faults: [String; 2] },
    /// The devices printed different output. `lines` is the first pair of lines that differ.
    Output { devices: [String; 2], lines: [String; 2] },
}

/// The reason why different results of two devices can both be correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The result depends on the order of threads, which is unspecified.
    Order,
    /// Functions have permitted rounding errors, which the kernel's arithmetic amplifies.
    Rounding,
}

/// A difference between two devices that the language permits.
#[derive(Clone, Debug, PartialEq)]
pub struct Variation {
    pub devices: [String; 2],
    pub cause: Cause,
    pub values: Option<DifferingArray>,
    /// Whether the printed output differs.
    pub lines: bool,
}

fn per_device(devices: &[String; 2], what: &[String; 2]) -> Vec<String> {
    devices.iter().zip(what).map(|(device, what)| format!("{device}: {what}")).collect()
}

impl Variation {
    pub fn title(&self) -> String {
        let subject = self.values.as_ref().map_or("the printed text".into(), |values| format!("`{}`", values.array));
        match self.cause {
            Cause::Order => format!("{subject} depends on which thread comes first"),
            Cause::Rounding => format!("{subject} depends on how functions are rounded"),
        }
    }

    pub fn notes(&self) -> Vec<String> {
        let [first, other] = &self.devices;
        let mut notes = Vec::new();
        if let Some(values) = &self.values {
            notes.push(format!("at {}:", values.name()));
            notes.extend(values.notes(&self.devices));
        }
        notes.push(match self.cause {
            Cause::Order => format!(
                "`{first}` itself gives other results when blocks and threads come in another order; so those of `{first}` and \
                 `{other}` are not compared, and it is for the program to check what it needs of them"
            ),
            Cause::Rounding => format!(
                "`{first}` itself gives results as far apart when functions like `exp` are off by {FUNCTION_ULPS} ULPs: this arithmetic \
                 amplifies such errors"
            ),
        });
        notes
    }
}

impl Disagreement {
    pub fn title(&self) -> String {
        match self {
            Disagreement::Values { values, devices: [a, b], .. } => {
                format!("{} is not the same on `{a}` and `{b}`", values.name())
            }
            Disagreement::Faults { devices: [a, b], .. } => format!("`{a}` and `{b}` report different faults"),
            Disagreement::Output { devices: [a, b], .. } => format!("`{a}` and `{b}` print different lines"),
        }
    }

    pub fn notes(&self) -> Vec<String> {
        match self {
            Disagreement::Values { devices, values, approximate, racy, divergence } => {
                let mut notes = values.notes(devices);
                if *approximate {
                    notes.push("more than functions with an error of some ULPs explain".into());
                }
                if *racy {
                    notes.push(format!(
                        "`{}` itself gives other results when threads come in another order: `--check` finds the race",
                        devices[0]
                    ));
                }
                match divergence {
                    Some(FirstDivergence::HiddenByRecording(thread)) => notes.push(format!(
                        "with the values of {thread} recorded, the devices agree: the compilation of the whole kernel makes the difference"
                    )),
                    Some(FirstDivergence::NotFound(thread, count)) => {
                        notes.push(format!("the first {count} values that {thread} computes are the same on both"));
                    }
                    Some(FirstDivergence::At(_)) | None => {}
                }
                notes
            }
            Disagreement::Faults { devices, faults } => per_device(devices, faults),
            Disagreement::Output { devices, lines } => per_device(devices, lines),
        }
    }

    /// Returns the source location of the first divergence, and a description of it.
    pub fn place(&self) -> Option<(Span, String)> {
        let Disagreement::Values { devices: [first, other], divergence: Some(FirstDivergence::At(spot)), .. } = self
        else {
            return None;
        };
        let thread = &spot.thread;
        let text = match &spot.kind {
            DivergenceKind::Computation { values: [a, b], operands } => {
                let of = if operands.is_empty() { String::new() } else { format!(" of {}", operands.join(" and ")) };
                format!("the devices diverge here: {thread} computes {a} on `{first}` and {b} on `{other}`{of}")
            }
            DivergenceKind::Load { values: [a, b] } => {
                format!("the devices diverge here: {thread} loads {a} on `{first}` and {b} on `{other}`")
            }
            DivergenceKind::ControlFlow => {
                format!("the devices diverge here: {thread} takes another branch after this")
            }
        };
        Some((spot.span, text))
    }
}
