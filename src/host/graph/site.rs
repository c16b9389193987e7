//! Where array expressions run: the device that a script uses at the moment, and the kernels of expressions that it has loaded.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustc_hash::FxHashMap;

use crate::device::sim::Simulator;
use crate::device::{Control, Device, Executable};
use crate::host::array::Array;
use crate::host::graph::ahead::Stream;
use crate::host::problem::Outcome;
use crate::ir::{Checks, Counted, Prepared};

/// Bytes from which a result is written over an operand that nobody reads any more: such kernels are compiled beside those that are not.
const WORTH_DONATING: usize = 1 << 20;

/// The loaded kernels of expressions, by device and structure.
#[derive(Default)]
pub(crate) struct Kernels(Mutex<FxHashMap<(String, Vec<u8>), Arc<dyn Executable>>>);

impl Kernels {
    /// Returns the kernel of this structure for a device, made if it is not known.
    fn get<E>(
        &self,
        device: &str,
        key: Vec<u8>,
        make: impl FnOnce() -> Result<Arc<dyn Executable>, E>,
    ) -> Result<Arc<dyn Executable>, E> {
        let key = (device.to_string(), key);
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(known.clone());
        }
        let made = make()?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, made.clone());
        Ok(made)
    }
}

/// A device in use, and how launches on it are controlled.
#[derive(Clone)]
pub(crate) struct Site(Arc<Place>);

struct Place {
    device: Arc<dyn Device>,
    /// Asked for when something runs: a device may be looked for only then.
    name: OnceLock<String>,
    control: Control,
    kernels: Arc<Kernels>,
    /// The processor, for small results if the device is a GPU.
    near: OnceLock<Option<Site>>,
    keeps_rows: OnceLock<bool>,
    donates_from: OnceLock<usize>,
    stream: Stream,
}

thread_local! {
    /// Where the script that this thread runs evaluates its expressions.
    static CURRENT: RefCell<Option<Site>> = const { RefCell::new(None) };
    /// Results that are to be computed though nobody reads them, if something is timed.
    static HELD: RefCell<Option<Vec<Array>>> = const { RefCell::new(None) };
}

impl Site {
    /// Creates a site; launches share the stop flag and the number of workers of `control`.
    pub fn new(device: Arc<dyn Device>, control: &Control, kernels: Arc<Kernels>) -> Site {
        let control = Control {
            checks: Checks::default(),
            larger: None,
            max_steps: 0,
            warnings: Arc::default(),
            launches: Arc::default(),
            ..control.clone()
        };
        Site(Arc::new(Place {
            device,
            name: OnceLock::new(),
            control,
            kernels,
            near: OnceLock::new(),
            keeps_rows: OnceLock::new(),
            donates_from: OnceLock::new(),
            stream: Stream::default(),
        }))
    }

    /// Returns the site of the script that this thread runs; without one, a simulator.
    pub fn current() -> Site {
        CURRENT.with_borrow_mut(|site| {
            let make = || Site::new(Arc::new(Simulator::default()), &Control::default(), Arc::default());
            site.get_or_insert_with(make).clone()
        })
    }

    /// Makes this the thread's site until the guard is dropped.
    pub fn enter(self) -> Entered {
        Entered(CURRENT.replace(Some(self)))
    }

    /// Makes this the thread's site where a script runs.
    pub fn switch(self) {
        CURRENT.with_borrow_mut(|site| {
            if site.is_some() {
                *site = Some(self);
            }
        });
    }

    pub fn device(&self) -> &Arc<dyn Device> {
        &self.0.device
    }

    pub fn control(&self) -> &Control {
        &self.0.control
    }

    pub fn name(&self) -> &str {
        self.0.name.get_or_init(|| self.0.device.name())
    }

    /// Returns what is read of arrays of the host in parts.
    pub fn stream(&self) -> &Stream {
        &self.0.stream
    }

    /// Returns the processor if this is a GPU.
    pub fn near(&self) -> Option<&Site> {
        let make = || {
            let far = self.0.device.is_remote();
            far.then(|| Site::new(Arc::new(Simulator::default()), &self.0.control, Arc::default()))
        };
        self.0.near.get_or_init(make).as_ref()
    }

    /// Whether expressions are computed as on a GPU: on one, and where it is counted what they cost one.
    pub fn is_gpu(&self) -> bool {
        self.0.device.is_remote() || self.counts()
    }

    /// Whether launches for expressions are counted.
    pub fn counts(&self) -> bool {
        self.0.control.counting.as_ref().is_some_and(|counting| counting.expressions)
    }

    /// Returns the kernel of this structure, made if it is not known.
    pub fn kernel<E>(
        &self,
        mut key: Vec<u8>,
        make: impl FnOnce() -> Result<Arc<dyn Executable>, E>,
    ) -> Result<Arc<dyn Executable>, E> {
        key.push(self.counts().into());
        self.0.kernels.get(self.name(), key, make)
    }

    /// Loads a kernel.
    pub fn load(&self, mut prepared: Prepared) -> Arc<dyn Executable> {
        prepared.counted = self.counts().then_some(Counted::Expression);
        self.0.device.load(Arc::new(prepared))
    }

    /// Returns whether kernels of rows keep what they read again in shared memory: GPUs do, where caches are small beside the number of
    /// rows that are computed at once.
    pub fn keeps_rows(&self) -> bool {
        *self.0.keeps_rows.get_or_init(|| self.is_gpu())
    }

    /// Has a simulator compute rows as GPUs do.
    #[cfg(test)]
    pub fn keep_rows(self) -> Site {
        self.0.keeps_rows.set(true).expect("a new site");
        self
    }

    /// Returns the bytes from which results are written over operands that nobody reads any more.
    pub fn donates_from(&self) -> usize {
        *self.0.donates_from.get_or_init(|| WORTH_DONATING)
    }

    #[cfg(test)]
    pub fn donate_from(self, bytes: usize) -> Self {
        self.0.donates_from.set(bytes).expect("a new site");
        self
    }

    pub fn is(&self, other: &Site) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Restores the thread's site when dropped.
pub(crate) struct Entered(Option<Site>);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// While it lives, results of expressions are kept, to be computed at its end: what is timed is computed, used or not.
pub(crate) struct Held(Option<Vec<Array>>);

/// The most results that are kept; the oldest one is then computed.
const MOST_HELD: usize = 16;

impl Held {
    pub fn begin() -> Held {
        Held(HELD.replace(Some(Vec::new())))
    }

    /// Keeps no results of what this evaluates.
    pub fn aside<R>(evaluate: impl FnOnce() -> R) -> R {
        let _kept = Held(HELD.replace(None));
        evaluate()
    }

    /// Computes what has been kept.
    pub fn finish(self) -> Outcome<()> {
        let kept = HELD.with_borrow_mut(|held| held.as_mut().map(std::mem::take)).unwrap_or_default();
        kept.iter().try_for_each(|array| array.storage().map(drop))
    }

    /// Keeps an array no longer, as a kernel computes it for its own use.
    pub fn used(array: &Array) {
        HELD.with_borrow_mut(|held| {
            let others = |kept: &Array| !Arc::ptr_eq(kept.data(), array.data());
            held.iter_mut().for_each(|held| held.retain(others));
        });
    }

    /// Keeps a new result, if results are kept, and no longer those that it is computed from.
    pub fn keep<'a>(result: &Array, operands: impl Iterator<Item = &'a Array>) -> Outcome<()> {
        operands.for_each(Held::used);
        let oldest = HELD.with_borrow_mut(|held| {
            let held = held.as_mut()?;
            held.push(result.clone());
            (held.len() > MOST_HELD).then(|| held.remove(0))
        });
        oldest.map_or(Ok(()), |array| array.storage().map(drop))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.set(self.0.take());
    }
}
