//! Storage of fault records: blocks in GPU memory, and data about the launch that uses each record.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::driver::{DevicePtr, Driver, DriverResult, StreamEvent, StridedWords};
use crate::text::abi::CudaKernel;
use clk_runtime::fault_record::{self, NOTICE_AT, RECORD_BYTES, STOP_WORD_AT};
use clk_runtime::{EarlierFault, LaunchOrigin};

/// The data with which the fault of a launch can be reported later.
pub(crate) struct PendingReport {
    pub kernel: Arc<CudaKernel>,
    pub origin: LaunchOrigin,
}

/// A block of fault records in GPU memory.
pub(super) struct RecordBlock {
    pub(super) memory: DevicePtr,
    /// The number of the block's first record.
    pub(super) number: u32,
    pub(super) count: usize,
    /// For each record, the last launch to which it was assigned.
    pub(super) pending: Vec<PendingReport>,
}

impl RecordBlock {
    pub(super) fn bytes(count: usize) -> u64 {
        (count * RECORD_BYTES) as u64
    }

    pub(super) fn record(&self, index: usize) -> DevicePtr {
        DevicePtr(self.memory.0 + Self::bytes(index))
    }

    /// Resets all records to their state before a launch.
    pub(super) fn clear(&self, driver: &dyn Driver, first: DevicePtr, flag: DevicePtr) -> DriverResult {
        let mut bytes = vec![0; Self::bytes(self.count) as usize];
        let places = (0..self.count).map(|k| self.record(k).0 + NOTICE_AT as u64);
        let resolved: Vec<_> = places.flat_map(|at| [(DevicePtr(at), first), (DevicePtr(at + 8), flag)]).collect();
        let (first, flag) = (driver.resolve(first)?, driver.resolve(flag)?);
        for (number, record) in (self.number..).zip(bytes.chunks_exact_mut(RECORD_BYTES)) {
            let notice = &mut record[NOTICE_AT..];
            notice[..8].copy_from_slice(&first.to_le_bytes());
            notice[8..16].copy_from_slice(&flag.to_le_bytes());
            notice[16..20].copy_from_slice(&number.to_le_bytes());
        }
        driver.upload(self.memory, &bytes)?;
        driver.hold(&resolved);
        Ok(())
    }

    pub(super) fn stop_words(&self) -> StridedWords {
        let first = DevicePtr(self.memory.0 + STOP_WORD_AT);
        StridedWords { first, pitch: RECORD_BYTES as u64, count: self.count as u64 }
    }
}

/// The fault records of a GPU context.
#[derive(Default)]
pub(crate) struct FaultRecords {
    /// The word that receives the number of the first launch that faulted.
    pub(super) first: Option<DevicePtr>,
    pub(super) ring: Option<RecordBlock>,
    /// The blocks of records for graphs, and the last record number that was assigned.
    pub(super) blocks: Vec<RecordBlock>,
    pub(super) last: u32,
    /// Whether a graph with records has run since the last time when all launches were known to be done.
    pub(super) was_graph_run: bool,
    /// Number of launches that got a record of the ring since the last time when all launches were known to be done.
    pub(super) issued: usize,
    /// For each half of the ring, the event after the last launch that uses it.
    pub(super) ends: [Option<StreamEvent>; 2],
    /// Whether a pending launch may run forever. Such launches poll the stop word of their record.
    pub(super) may_run_forever: bool,
    /// The flag that Ctrl-C sets.
    pub(super) stop: Option<Arc<AtomicBool>>,
}

impl FaultRecords {
    pub(super) fn has_no_pending_reports(&self) -> bool {
        self.issued == 0 && !self.was_graph_run
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &RecordBlock> {
        self.ring.iter().chain(&self.blocks)
    }

    /// Records that a launch which may run forever must end when this flag is set.
    pub(super) fn add_stop_flag(&mut self, stop: &Arc<AtomicBool>) {
        self.may_run_forever = true;
        if !self.stop.as_ref().is_some_and(|known| Arc::ptr_eq(known, stop)) {
            self.stop = Some(stop.clone());
        }
    }

    /// Resets all records to their initial state.
    pub(super) fn reset(&self, driver: &dyn Driver) -> DriverResult {
        let Some(first) = self.first else { return Ok(()) };
        driver.zero(first, 4)?;
        let flag = driver.flag()?;
        for block in self.all() {
            block.clear(driver, first, flag)?;
        }
        driver.clear_flag();
        Ok(())
    }

    /// Records that all launches so far are done and that their faults have been reported.
    pub(super) fn forget(&mut self, driver: &dyn Driver) {
        self.issued = 0;
        self.was_graph_run = false;
        self.may_run_forever = false;
        self.ends.iter_mut().filter_map(Option::take).for_each(|event| driver.forget_event(event));
        self.ring.iter_mut().for_each(|ring| ring.pending.clear());
    }

    /// Returns the first fault. All launches must be done.
    pub(super) fn fault(&self, driver: &dyn Driver) -> DriverResult<Option<EarlierFault>> {
        let Some(first) = self.first else { return Ok(None) };
        let mut number = [0; 4];
        driver.download(first, &mut number)?;
        let number = u32::from_le_bytes(number);
        for block in self.all() {
            let Some(index) = number.checked_sub(block.number).map(|i| i as usize).filter(|&i| i < block.count) else {
                continue;
            };
            let Some(pending) = block.pending.get(index) else { continue };
            let mut record = [0; RECORD_BYTES];
            driver.download(block.record(index), &mut record)?;
            let fault = fault_record::read(&pending.kernel.places, pending.kernel.index_rank(), &record, "");
            return Ok(fault.map(|fault| EarlierFault { fault: *fault, origin: pending.origin }));
        }
        Ok(None)
    }
}
