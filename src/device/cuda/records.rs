//! Fault records: how faults of asynchronous launches are detected.
//!
//! A launch that may fail gets a fault record from a ring in GPU memory and returns at once. The first thread that faults writes
//! its launch's number to the word `first`, unless an earlier launch did, and raises a flag in host memory. The flag is tested
//! before each launch and after each wait, which costs nothing; only when it is raised is anything copied. Launches behind the
//! failed one run all the same: the contents of arrays are then unreliable, but the report is that of the first fault.

mod ring;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use self::ring::Block;
pub(crate) use self::ring::{Pending, Records};
use super::context::Context;
use super::driver::{Address, Answer, Argument, Driver, Words};
use crate::device::DeviceError;

/// The largest number of pending launches with records.
const RING: usize = 1024;
/// Records are reused one half of the ring at a time, once the launches that had them are done.
const HALF: usize = RING / 2;

/// Launches that may be queued behind one that perhaps runs forever. The driver queues some 1000 and then blocks the caller,
/// which could not ask kernels to stop any more.
const BEHIND: usize = 200;

impl Context {
    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a record for a launch that is about to be issued. `stop` is its stop request, if the kernel polls for one.
    pub fn record(&self, pending: Pending, stop: Option<&Arc<AtomicBool>>) -> Result<Address, DeviceError> {
        let driver = &**self.driver()?;
        let mut records = self.records();
        if records.ring.is_none() {
            self.make_ring(driver, &mut records).map_err(|refusal| self.error(refusal))?;
        }
        let slot = records.issued % RING;
        if slot.is_multiple_of(HALF) && records.issued > 0 {
            self.enter_half(driver, &mut records, slot / HALF)?;
        }
        // Waiting may have restarted the count.
        let slot = records.issued % RING;
        records.issued += 1;
        if let Some(stop) = stop {
            records.stops(stop);
            self.behind.fetch_max(1, Ordering::Relaxed);
        }
        let Some(ring) = &mut records.ring else { return Ok(Address::default()) };
        match ring.pending.get_mut(slot) {
            Some(old) => *old = pending,
            None => ring.pending.push(pending),
        }
        Ok(ring.record(slot))
    }

    fn make_ring(&self, driver: &dyn Driver, records: &mut Records) -> Answer {
        let ring = self.make_block(driver, records, RING)?;
        records.ring = Some(ring);
        Ok(())
    }

    fn make_block(&self, driver: &dyn Driver, records: &mut Records, count: usize) -> Answer<Block> {
        let first = match records.first {
            Some(first) => first,
            None => {
                let first = driver.allocate(16)?;
                records.first = Some(first);
                driver.zero(first, 16)?;
                first
            }
        };
        let flag = driver.flag()?;
        let block =
            Block { memory: driver.allocate(Block::bytes(count))?, number: records.last + 1, count, pending: vec![] };
        records.last += count as u32;
        block.clear(driver, first, flag)?;
        Ok(block)
    }

    /// Allocates records for the launches of a graph, which keep them; returns the first one's number.
    pub fn new_block(&self, count: usize) -> Result<u32, DeviceError> {
        let driver = &**self.driver()?;
        let mut records = self.records();
        let block = self.make_block(driver, &mut records, count).map_err(|refusal| self.error(refusal))?;
        let number = block.number;
        records.blocks.push(block);
        Ok(number)
    }

    /// Assigns its records to the launches of a graph that is about to be run: for each the argument that takes the address, and
    /// the parameters of [`Context::record`].
    pub fn use_block<'a>(
        &self,
        number: u32,
        launches: impl Iterator<Item = (&'a mut Argument, Pending, Option<Arc<AtomicBool>>)>,
    ) {
        let mut records = self.records();
        records.chained = true;
        let Some(at) = records.blocks.iter().position(|block| block.number == number) else { return };
        for (index, (argument, pending, stop)) in launches.enumerate() {
            if let Some(stop) = stop {
                records.stops(&stop);
                self.behind.fetch_max(1, Ordering::Relaxed);
            }
            let block = &mut records.blocks[at];
            *argument = Argument::Address(block.record(index));
            match block.pending.get_mut(index) {
                Some(old) => *old = pending,
                None => block.pending.push(pending),
            }
        }
    }

    /// Frees a graph's records, once its launches are done.
    pub fn forget_block(&self, number: u32) -> Result<(), DeviceError> {
        let mut records = self.records();
        let driver = &**self.driver()?;
        let confirmed = match records.chained {
            true => self.wait(driver, &records).and_then(|stopped| self.known(driver, &mut records, stopped)),
            false => Ok(()),
        };
        if let Some(at) = records.blocks.iter().position(|block| block.number == number) {
            driver.free(records.blocks.swap_remove(at).memory);
        }
        confirmed
    }

    /// Waits until the launches that use the records of this half of the ring are done.
    fn enter_half(&self, driver: &dyn Driver, records: &mut Records, half: usize) -> Result<(), DeviceError> {
        let refused = |refusal| self.error(refusal);
        let end = driver.event().map_err(refused)?;
        records.ends[1 - half] = Some(end);
        driver.record(end).map_err(refused)?;
        let Some(before) = records.ends[half].take() else { return Ok(()) };
        let _waiting = self.begin_wait();
        let stopped = self.until(driver, records, |driver| driver.is_reached(before));
        driver.forget_event(before);
        let stopped = stopped?;
        if stopped || driver.is_flag_up() {
            let stopped = self.wait(driver, records)? || stopped;
            return self.known(driver, records, stopped);
        }
        Ok(())
    }

    /// Waits for launches that may report a fault, and reports it.
    pub fn confirm(&self) -> Result<(), DeviceError> {
        self.flush()?;
        self.renew()?;
        let mut records = self.records();
        if records.is_quiet() {
            // No fault record is pending, but a kernel may have killed its process.
            return self.settle();
        }
        let driver = &**self.driver()?;
        let stopped = self.wait(driver, &records)?;
        self.forget_replays();
        self.known(driver, &mut records, stopped)
    }

    /// Called for every launch: waits where too many would be queued behind one that may run forever.
    pub fn line_up(&self) -> Result<(), DeviceError> {
        if self.behind.load(Ordering::Relaxed) == 0 || self.behind.fetch_add(1, Ordering::Relaxed) < BEHIND {
            return Ok(());
        }
        let mut records = self.records();
        let driver = &**self.driver()?;
        let stopped = self.wait(driver, &records)?;
        self.known(driver, &mut records, stopped)
    }

    /// Recreates the records after a process was replaced: launches of the old one are done or lost, and addresses have changed.
    fn renew(&self) -> Result<(), DeviceError> {
        if !self.stale.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let mut records = self.records();
        let driver = &**self.driver()?;
        records.forget(driver);
        self.behind.store(0, Ordering::Relaxed);
        records.reset(driver).map_err(|refusal| self.error(refusal))
    }

    /// Reports a fault that is known already, without waiting for one.
    pub fn look(&self) -> Result<(), DeviceError> {
        self.renew()?;
        if self.driver()?.is_flag_up() { self.confirm() } else { Ok(()) }
    }

    /// Waits for all pending operations.
    pub fn finish(&self) -> Result<(), DeviceError> {
        self.flush()?;
        self.renew()?;
        let mut records = self.records();
        let driver = &**self.driver()?;
        let stopped = self.wait(driver, &records)?;
        self.known(driver, &mut records, stopped)
    }

    /// Has streams of others wait for all pending operations; waits for those itself if one may report a fault, or a stream cannot wait.
    pub fn pass_on(&self, streams: &[usize]) -> Result<(), DeviceError> {
        self.flush()?;
        if !self.records().is_quiet() || self.is_isolated() {
            return self.finish();
        }
        match self.driver()?.go_before(streams) {
            Ok(()) => Ok(()),
            // Nothing must be under way that nobody waits for.
            Err(_) => self.finish(),
        }
    }

    /// Waits for launches whose machine code is about to go, if they end by themselves.
    pub fn let_end(&self) {
        if let (false, Some(driver)) = (self.records().endless, self.opened()) {
            let _ = driver.synchronize();
        }
    }

    /// Copies from the GPU, unless one of the launches before the copy has failed.
    pub fn copy_here(&self, from: Address, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.flush()?;
        self.renew()?;
        let mut records = self.records();
        let driver = &**self.driver()?;
        let _waiting = self.begin_wait();
        // Only a wait that also serves stop requests is guaranteed to end.
        let stopped = if records.endless { self.wait(driver, &records)? } else { false };
        driver.download(from, bytes).map_err(|refusal| self.error(refusal))?;
        if records.is_quiet() { Ok(()) } else { self.known(driver, &mut records, stopped) }
    }

    fn wait(&self, driver: &dyn Driver, records: &Records) -> Result<bool, DeviceError> {
        let _waiting = self.begin_wait();
        match records.endless {
            true => self.until(driver, records, |driver| driver.is_idle()),
            false => driver.synchronize().map(|()| false).map_err(|refusal| self.error(refusal)),
        }
    }

    /// After a wait: reports the fault of a launch, if one has failed. `touched`: stop words were written.
    fn known(&self, driver: &dyn Driver, records: &mut Records, touched: bool) -> Result<(), DeviceError> {
        let mut found = Ok(None);
        if driver.is_flag_up() {
            found = records.fault(driver).and_then(|fault| records.reset(driver).map(|()| fault));
        } else if touched {
            found = records.reset(driver).map(|()| None);
        }
        records.forget(driver);
        self.behind.store(0, Ordering::Relaxed);
        match found.map_err(|refusal| self.error(refusal))? {
            Some(fault) => Err(DeviceError::Earlier(Box::new(fault))),
            None => Ok(()),
        }
    }

    /// Waits, and asks kernels to stop when the user does; returns whether they were asked.
    fn until(
        &self,
        driver: &dyn Driver,
        records: &Records,
        done: impl Fn(&dyn Driver) -> Answer<bool>,
    ) -> Result<bool, DeviceError> {
        let words: Vec<Words> = records.all().map(Block::stop_words).collect();
        let never = AtomicBool::new(false);
        let stop = records.stop.as_deref().unwrap_or(&never);
        stoppable(driver, stop, &words, done).map_err(|refusal| self.error(refusal))
    }

    /// Frees the records' memory.
    pub fn drop_records(&mut self) {
        let records = std::mem::take(self.records.get_mut().unwrap_or_else(PoisonError::into_inner));
        if let (Some(first), Ok(driver)) = (records.first, self.driver()) {
            records.all().for_each(|block| driver.free(block.memory));
            driver.free(first);
        }
    }
}

/// Waits until `done`, and writes stop words when the user asks to stop; returns whether they were written.
pub(crate) fn stoppable(
    driver: &dyn Driver,
    stop: &AtomicBool,
    words: &[Words],
    done: impl Fn(&dyn Driver) -> Answer<bool>,
) -> Answer<bool> {
    let begin = Instant::now();
    let mut told = false;
    while !done(driver)? {
        if !told && stop.load(Ordering::Relaxed) {
            told = true;
            words.iter().try_for_each(|words| driver.poke(*words, 1))?;
        }
        // Busy-waits for short kernels; long ones are not worth a core.
        match begin.elapsed() > Duration::from_millis(2) {
            true => std::thread::sleep(Duration::from_micros(100)),
            false => std::hint::spin_loop(),
        }
    }
    Ok(told)
}
