//! Differences of two devices on one launch: disagreements and permitted variations, with their texts.

use super::jitter::FUNCTION_ULPS;
use crate::base::source::Span;

/// An array that two devices leave with different contents: the first element that differs, and the number of those that do.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    pub array: String,
    pub index: Vec<u32>,
    /// `.pos.x` for a field of a struct; else empty.
    pub field: String,
    pub values: [String; 2],
    /// The number of elements that differ, and of all elements.
    pub differing: u64,
    pub elements: u64,
}

impl Values {
    fn name(&self) -> String {
        let index: Vec<String> = self.index.iter().map(u32::to_string).collect();
        format!("`{}[{}]{}`", self.array, index.join(", "), self.field)
    }

    fn notes(&self, devices: &[String; 2]) -> Vec<String> {
        let mut notes = each(devices, &self.values);
        notes.push(format!("{} of {} elements differ", self.differing, self.elements));
        notes
    }
}

/// Where two devices part.
#[derive(Clone, Debug, PartialEq)]
pub enum Parting {
    At(Box<Spot>),
    /// With the values of this thread recorded, the devices leave the same.
    Vanished(String),
    /// All values of this thread that were recorded are the same, and so many were.
    Unseen(String, usize),
}

/// An operation of a thread that two devices compute differently.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    pub span: Span,
    pub thread: String,
    pub how: How,
}

#[derive(Clone, Debug, PartialEq)]
pub enum How {
    /// The values of the two devices, and the operands that both had.
    Computes { values: [String; 2], operands: Vec<String> },
    /// What was stored there is the same on both, and what is loaded is not.
    Loads { values: [String; 2] },
    /// They go different ways behind it.
    Goes,
}

/// A disagreement of two devices about a launch.
#[derive(Clone, Debug, PartialEq)]
pub enum Disagreement {
    Values {
        devices: [String; 2],
        values: Values,
        /// Small differences were allowed.
        approximate: bool,
        /// The kernel has no atomic operation, and yet its result depends on the order of threads.
        racy: bool,
        /// Where the two part, as far as that was found.
        parting: Option<Parting>,
    },
    /// One device reports a fault, and the other none or a different one.
    Faults { devices: [String; 2], faults: [String; 2] },
    /// The first line that only one of them printed.
    Output { devices: [String; 2], lines: [String; 2] },
}

/// Why the results of two devices may differ and both be correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The order of threads.
    Order,
    /// Errors of functions within their bounds, amplified by the kernel's arithmetic.
    Rounding,
}

/// A difference between two devices that the language permits.
#[derive(Clone, Debug, PartialEq)]
pub struct Variation {
    pub(super) devices: [String; 2],
    pub(crate) cause: Cause,
    pub(super) values: Option<Values>,
    /// The difference is in the kernel's output.
    pub(super) lines: bool,
}

fn each(devices: &[String; 2], what: &[String; 2]) -> Vec<String> {
    devices.iter().zip(what).map(|(device, what)| format!("{device}: {what}")).collect()
}

impl Variation {
    pub fn title(&self) -> String {
        let what = self.values.as_ref().map_or("what is printed".into(), |values| format!("`{}`", values.array));
        match self.cause {
            Cause::Order => format!("{what} depends on which thread comes first"),
            Cause::Rounding => format!("{what} depends on how functions are rounded"),
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
            Disagreement::Values { devices, values, approximate, racy, parting } => {
                let mut notes = values.notes(devices);
                if *approximate {
                    notes.push("beyond what functions with an error of some ULPs explain".into());
                }
                if *racy {
                    notes.push(format!(
                        "`{}` itself gives other results when threads come in another order: `--check` finds the race",
                        devices[0]
                    ));
                }
                match parting {
                    Some(Parting::Vanished(thread)) => notes.push(format!(
                        "with the values of {thread} recorded, the devices leave the same: what differs is how the whole kernel is compiled"
                    )),
                    Some(Parting::Unseen(thread, count)) => {
                        notes.push(format!("the first {count} values that {thread} computes are the same on both"));
                    }
                    Some(Parting::At(_)) | None => {}
                }
                notes
            }
            Disagreement::Faults { devices, faults } => each(devices, faults),
            Disagreement::Output { devices, lines } => each(devices, lines),
        }
    }

    /// Returns the place where the devices part, and what is said of it.
    pub fn place(&self) -> Option<(Span, String)> {
        let Disagreement::Values { devices: [first, other], parting: Some(Parting::At(spot)), .. } = self else {
            return None;
        };
        let thread = &spot.thread;
        let text = match &spot.how {
            How::Computes { values: [a, b], operands } => {
                let of = if operands.is_empty() { String::new() } else { format!(" of {}", operands.join(" and ")) };
                format!("here they part: {thread} computes {a} on `{first}` and {b} on `{other}`{of}")
            }
            How::Loads { values: [a, b] } => {
                format!("here they part: {thread} loads {a} on `{first}` and {b} on `{other}`")
            }
            How::Goes => format!("here they part: {thread} goes another way behind this"),
        };
        Some((spot.span, text))
    }
}
