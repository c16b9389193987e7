//! Fault records, which report faults of asynchronous launches.
//!
//! A launch that may fault gets a record from a ring in GPU memory, and the host does not wait for it. The first thread
//! that faults stores its launch's number in the word `first`, unless an earlier launch has done so, and sets a flag in
//! host memory. The host reads the flag before each launch and after each wait, and copies records only if the flag is
//! set. Launches after the faulted one still run, so the contents of arrays are then unreliable. Only the first fault
//! is reported.

mod ring;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use self::ring::RecordBlock;
pub(crate) use self::ring::{FaultRecords, PendingReport};
use super::context::GpuContext;
use super::driver::{DevicePtr, Driver, DriverArgument, DriverResult, StridedWords};
use clk_runtime::DeviceError;
use clk_runtime::import::ForeignStream;

/// Number of records in the ring, which limits the number of pending launches with records.
const RING: usize = 1024;
/// Half the size of the ring. The records of one half are reused together, once the launches that used them are done.
const HALF: usize = RING / 2;

/// Maximum number of launches queued after one that may run forever. The driver queues about 1000 launches and then
/// blocks the calling thread, which could then no longer ask kernels to stop.
const MAX_QUEUED_AFTER_ENDLESS: usize = 200;

impl GpuContext {
    fn records(&self) -> MutexGuard<'_, FaultRecords> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the address of a record for a launch that is about to be issued. `stop` is the flag of the user's stop
    /// request, if the kernel polls for one.
    pub fn record(&self, pending: PendingReport, stop: Option<&Arc<AtomicBool>>) -> Result<DevicePtr, DeviceError> {
        let driver = &**self.driver()?;
        let mut records = self.records();
        if records.ring.is_none() {
            self.make_ring(driver, &mut records).map_err(|refusal| self.error(refusal))?;
        }
        let slot = records.issued % RING;
        if slot.is_multiple_of(HALF) && records.issued > 0 {
            self.enter_half(driver, &mut records, slot / HALF)?;
        }
        // Compute the slot again, because waiting may have reset the count.
        let slot = records.issued % RING;
        records.issued += 1;
        if let Some(stop) = stop {
            records.add_stop_flag(stop);
            self.launches_after_endless.fetch_max(1, Ordering::Relaxed);
        }
        let Some(ring) = &mut records.ring else { return Ok(DevicePtr::default()) };
        match ring.pending.get_mut(slot) {
            Some(old) => *old = pending,
            None => ring.pending.push(pending),
        }
        Ok(ring.record(slot))
    }

    fn make_ring(&self, driver: &dyn Driver, records: &mut FaultRecords) -> DriverResult {
        let ring = self.make_block(driver, records, RING)?;
        records.ring = Some(ring);
        Ok(())
    }

    fn make_block(&self, driver: &dyn Driver, records: &mut FaultRecords, count: usize) -> DriverResult<RecordBlock> {
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
        let block = RecordBlock {
            memory: driver.allocate(RecordBlock::bytes(count))?,
            number: records.last + 1,
            count,
            pending: vec![],
        };
        records.last += count as u32;
        block.clear(driver, first, flag)?;
        Ok(block)
    }

    /// Allocates a block of records for the launches of a graph. Returns the number of the block's first record.
    pub fn new_block(&self, count: usize) -> Result<u32, DeviceError> {
        let driver = &**self.driver()?;
        let mut records = self.records();
        let block = self.make_block(driver, &mut records, count).map_err(|refusal| self.error(refusal))?;
        let number = block.number;
        records.blocks.push(block);
        Ok(number)
    }

    /// Assigns the records of a block to the launches of a graph that is about to run. Each item has the argument that
    /// receives the record's address, and the parameters of [`GpuContext::record`].
    pub fn use_block<'a>(
        &self,
        number: u32,
        launches: impl Iterator<Item = (&'a mut DriverArgument, PendingReport, Option<Arc<AtomicBool>>)>,
    ) {
        let mut records = self.records();
        records.was_graph_run = true;
        let Some(at) = records.blocks.iter().position(|block| block.number == number) else { return };
        for (index, (argument, pending, stop)) in launches.enumerate() {
            if let Some(stop) = stop {
                records.add_stop_flag(&stop);
                self.launches_after_endless.fetch_max(1, Ordering::Relaxed);
            }
            let block = &mut records.blocks[at];
            *argument = DriverArgument::Address(block.record(index));
            match block.pending.get_mut(index) {
                Some(old) => *old = pending,
                None => block.pending.push(pending),
            }
        }
    }

    /// Waits for the launches of a graph, and frees their records.
    pub fn forget_block(&self, number: u32) -> Result<(), DeviceError> {
        let mut records = self.records();
        let driver = &**self.driver()?;
        let confirmed = match records.was_graph_run {
            true => self.wait(driver, &records).and_then(|stopped| self.report_fault(driver, &mut records, stopped)),
            false => Ok(()),
        };
        if let Some(at) = records.blocks.iter().position(|block| block.number == number) {
            driver.free(records.blocks.swap_remove(at).memory);
        }
        confirmed
    }

    /// Waits until the launches that use this half of the ring are done.
    fn enter_half(&self, driver: &dyn Driver, records: &mut FaultRecords, half: usize) -> Result<(), DeviceError> {
        let refused = |refusal| self.error(refusal);
        let end = driver.event().map_err(refused)?;
        records.ends[1 - half] = Some(end);
        driver.record(end).map_err(refused)?;
        let Some(before) = records.ends[half].take() else { return Ok(()) };
        let _waiting = self.begin_wait();
        let stopped = self.wait_until(driver, records, |driver| driver.is_event_reached(before));
        driver.forget_event(before);
        let stopped = stopped?;
        if stopped || driver.is_flag_set() {
            let stopped = self.wait(driver, records)? || stopped;
            return self.report_fault(driver, records, stopped);
        }
        Ok(())
    }

    /// Waits for the launches that may report a fault, and reports the first fault.
    pub fn confirm(&self) -> Result<(), DeviceError> {
        self.flush()?;
        self.renew_records()?;
        let mut records = self.records();
        if records.has_no_pending_reports() {
            // No launch has a pending fault record, but a kernel may have crashed the worker process.
            return self.wait_for_recorded();
        }
        let driver = &**self.driver()?;
        let stopped = self.wait(driver, &records)?;
        self.forget_replays();
        self.report_fault(driver, &mut records, stopped)
    }

    /// Waits if too many launches would be queued after one that may run forever. Called for every launch.
    pub fn limit_queue(&self) -> Result<(), DeviceError> {
        if self.launches_after_endless.load(Ordering::Relaxed) == 0
            || self.launches_after_endless.fetch_add(1, Ordering::Relaxed) < MAX_QUEUED_AFTER_ENDLESS
        {
            return Ok(());
        }
        let mut records = self.records();
        let driver = &**self.driver()?;
        let stopped = self.wait(driver, &records)?;
        self.report_fault(driver, &mut records, stopped)
    }

    /// Recreates the records after a worker was replaced. The launches of the old worker are done or lost, and
    /// addresses have changed.
    fn renew_records(&self) -> Result<(), DeviceError> {
        if !self.are_records_stale.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let mut records = self.records();
        let driver = &**self.driver()?;
        records.forget(driver);
        self.launches_after_endless.store(0, Ordering::Relaxed);
        records.reset(driver).map_err(|refusal| self.error(refusal))
    }

    /// Reports a fault if the flag is already set. Waits only in this case.
    pub fn report_known_fault(&self) -> Result<(), DeviceError> {
        self.renew_records()?;
        if self.driver()?.is_flag_set() { self.confirm() } else { Ok(()) }
    }

    /// Waits for all pending operations.
    pub fn finish(&self) -> Result<(), DeviceError> {
        self.flush()?;
        self.renew_records()?;
        let mut records = self.records();
        let driver = &**self.driver()?;
        let stopped = self.wait(driver, &records)?;
        self.report_fault(driver, &mut records, stopped)
    }

    /// Makes streams of other libraries wait for all pending operations. If an operation may report a fault, or a
    /// stream cannot wait, the host waits instead.
    pub fn order_streams_after(&self, streams: &[ForeignStream]) -> Result<(), DeviceError> {
        self.flush()?;
        if !self.records().has_no_pending_reports() || self.is_isolated() {
            return self.finish();
        }
        match self.driver()?.make_streams_wait_for_this(streams) {
            Ok(()) => Ok(()),
            // If a stream cannot wait for the operations, the host must.
            Err(_) => self.finish(),
        }
    }

    /// Waits for the launches whose machine code is about to be unloaded, except launches that may run forever.
    pub fn wait_before_unload(&self) {
        if let (false, Some(driver)) = (self.records().may_run_forever, self.driver_if_open()) {
            let _ = driver.synchronize();
        }
    }

    /// Copies from the GPU. Fails if a launch before the copy has faulted.
    pub fn download_checked(&self, from: DevicePtr, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.flush()?;
        self.renew_records()?;
        let mut records = self.records();
        let driver = &**self.driver()?;
        let _waiting = self.begin_wait();
        // If a kernel may run forever, first wait in a way that also handles stop requests.
        let stopped = if records.may_run_forever { self.wait(driver, &records)? } else { false };
        driver.download(from, bytes).map_err(|refusal| self.error(refusal))?;
        if records.has_no_pending_reports() { Ok(()) } else { self.report_fault(driver, &mut records, stopped) }
    }

    fn wait(&self, driver: &dyn Driver, records: &FaultRecords) -> Result<bool, DeviceError> {
        let _waiting = self.begin_wait();
        match records.may_run_forever {
            true => self.wait_until(driver, records, |driver| driver.is_idle()),
            false => driver.synchronize().map(|()| false).map_err(|refusal| self.error(refusal)),
        }
    }

    /// Reports the first fault, if a launch has faulted. Must be called after a wait. `touched`: whether stop words
    /// were written.
    fn report_fault(&self, driver: &dyn Driver, records: &mut FaultRecords, touched: bool) -> Result<(), DeviceError> {
        let mut earlier_fault = Ok(None);
        if driver.is_flag_set() {
            earlier_fault = records.fault(driver).and_then(|fault| records.reset(driver).map(|()| fault));
        } else if touched {
            earlier_fault = records.reset(driver).map(|()| None);
        }
        records.forget(driver);
        self.launches_after_endless.store(0, Ordering::Relaxed);
        match earlier_fault.map_err(|refusal| self.error(refusal))? {
            Some(fault) => Err(DeviceError::EarlierLaunch(Box::new(fault))),
            None => Ok(()),
        }
    }

    /// Waits until `done` returns true, and writes the stop words of all records when the user asks to stop. Returns
    /// whether they were written.
    fn wait_until(
        &self,
        driver: &dyn Driver,
        records: &FaultRecords,
        done: impl Fn(&dyn Driver) -> DriverResult<bool>,
    ) -> Result<bool, DeviceError> {
        let words: Vec<StridedWords> = records.all().map(RecordBlock::stop_words).collect();
        let never = AtomicBool::new(false);
        let stop = records.stop.as_deref().unwrap_or(&never);
        wait_stoppable(driver, stop, &words, done).map_err(|refusal| self.error(refusal))
    }

    /// Frees the GPU memory of all records.
    pub fn drop_records(&mut self) {
        let records = std::mem::take(self.records.get_mut().unwrap_or_else(PoisonError::into_inner));
        if let (Some(first), Ok(driver)) = (records.first, self.driver()) {
            records.all().for_each(|block| driver.free(block.memory));
            driver.free(first);
        }
    }
}

/// Waits until `done` returns true, and writes 1 to `words` once `stop` is set. Returns whether the words were written.
pub(crate) fn wait_stoppable(
    driver: &dyn Driver,
    stop: &AtomicBool,
    words: &[StridedWords],
    done: impl Fn(&dyn Driver) -> DriverResult<bool>,
) -> DriverResult<bool> {
    let begin = Instant::now();
    let mut were_words_written = false;
    while !done(driver)? {
        if !were_words_written && stop.load(Ordering::Relaxed) {
            were_words_written = true;
            words.iter().try_for_each(|words| driver.write_words_now(*words, 1))?;
        }
        // Busy-wait for short kernels only, because it occupies a CPU core.
        match begin.elapsed() > Duration::from_millis(2) {
            true => std::thread::sleep(Duration::from_micros(100)),
            false => std::hint::spin_loop(),
        }
    }
    Ok(were_words_written)
}
