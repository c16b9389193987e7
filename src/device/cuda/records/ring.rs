//! Storage of fault records: blocks in GPU memory, and the pending launch of each record.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::base::source::Span;
use crate::device::cuda::driver::{Address, Answer, Driver, Event, Words};
use crate::device::cuda::fault;
use crate::device::cuda::text::abi::{CudaKernel, FAULT_BYTES, FAULT_NOTICE_AT};
use crate::device::fault::Earlier;

/// The data to report a launch's fault later.
pub(crate) struct Pending {
    pub kernel: Arc<CudaKernel>,
    /// The statement that launched it.
    pub launched: Span,
}

/// A block of records in GPU memory.
pub(super) struct Block {
    pub(super) memory: Address,
    /// The number of its first record.
    pub(super) number: u32,
    pub(super) count: usize,
    /// By record.
    pub(super) pending: Vec<Pending>,
}

impl Block {
    pub(super) fn bytes(count: usize) -> u64 {
        (count * FAULT_BYTES) as u64
    }

    pub(super) fn record(&self, index: usize) -> Address {
        Address(self.memory.0 + Self::bytes(index))
    }

    /// Resets all records to their state before a launch.
    pub(super) fn clear(&self, driver: &dyn Driver, first: Address, flag: Address) -> Answer {
        let mut bytes = vec![0; Self::bytes(self.count) as usize];
        let places = (0..self.count).map(|k| self.record(k).0 + FAULT_NOTICE_AT as u64);
        let held: Vec<_> = places.flat_map(|at| [(Address(at), first), (Address(at + 8), flag)]).collect();
        let (first, flag) = (driver.resolve(first)?, driver.resolve(flag)?);
        for (number, record) in (self.number..).zip(bytes.chunks_exact_mut(FAULT_BYTES)) {
            let notice = &mut record[FAULT_NOTICE_AT..];
            notice[..8].copy_from_slice(&first.to_le_bytes());
            notice[8..16].copy_from_slice(&flag.to_le_bytes());
            notice[16..20].copy_from_slice(&number.to_le_bytes());
        }
        driver.upload(self.memory, &bytes)?;
        driver.hold(&held);
        Ok(())
    }

    pub(super) fn stop_words(&self) -> Words {
        let first = Address(self.memory.0 + fault::STOP_WORD);
        Words { first, pitch: FAULT_BYTES as u64, count: self.count as u64 }
    }
}

/// The records of a context.
#[derive(Default)]
pub(crate) struct Records {
    /// The word that takes the number of the first launch that failed.
    pub(super) first: Option<Address>,
    pub(super) ring: Option<Block>,
    /// The blocks of graphs, and the last number that was assigned.
    pub(super) blocks: Vec<Block>,
    pub(super) last: u32,
    /// A graph with a block was run since the last confirmation.
    pub(super) chained: bool,
    /// Launches that got a record of the ring since the last confirmation.
    pub(super) issued: usize,
    /// Events behind the last launch of each half of the ring.
    pub(super) ends: [Option<Event>; 2],
    /// Some of the launches may run forever, but poll the stop word.
    pub(super) endless: bool,
    /// Set by Ctrl-C.
    pub(super) stop: Option<Arc<AtomicBool>>,
}

impl Records {
    pub(super) fn is_quiet(&self) -> bool {
        self.issued == 0 && !self.chained
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Block> {
        self.ring.iter().chain(&self.blocks)
    }

    /// Notes a launch that ends when this flag is set.
    pub(super) fn stops(&mut self, stop: &Arc<AtomicBool>) {
        self.endless = true;
        if !self.stop.as_ref().is_some_and(|known| Arc::ptr_eq(known, stop)) {
            self.stop = Some(stop.clone());
        }
    }

    /// Resets all records to their initial state.
    pub(super) fn reset(&self, driver: &dyn Driver) -> Answer {
        let Some(first) = self.first else { return Ok(()) };
        driver.zero(first, 4)?;
        let flag = driver.flag()?;
        for block in self.all() {
            block.clear(driver, first, flag)?;
        }
        driver.lower_flag();
        Ok(())
    }

    /// Notes that all launches so far are done and their outcome is known.
    pub(super) fn forget(&mut self, driver: &dyn Driver) {
        self.issued = 0;
        self.chained = false;
        self.endless = false;
        self.ends.iter_mut().filter_map(Option::take).for_each(|event| driver.forget_event(event));
        self.ring.iter_mut().for_each(|ring| ring.pending.clear());
    }

    /// Returns the first fault, once the launches are done.
    pub(super) fn fault(&self, driver: &dyn Driver) -> Answer<Option<Earlier>> {
        let Some(first) = self.first else { return Ok(None) };
        let mut number = [0; 4];
        driver.download(first, &mut number)?;
        let number = u32::from_le_bytes(number);
        for block in self.all() {
            let Some(index) = number.checked_sub(block.number).map(|i| i as usize).filter(|&i| i < block.count) else {
                continue;
            };
            let Some(pending) = block.pending.get(index) else { continue };
            let mut record = [0; FAULT_BYTES];
            driver.download(block.record(index), &mut record)?;
            let fault = fault::read(&pending.kernel, &record, "");
            return Ok(fault.map(|fault| Earlier { fault: *fault, launched: pending.launched }));
        }
        Ok(None)
    }
}
