//! Devices that change some methods of another device.

use std::sync::Arc;

use clk_base::source::SourceMap;
use clk_ir::PreparedKernel;

use super::exchange::{CollectiveDevice, CollectiveError};
use super::{BoxedTimestamp, Capabilities, Device, DeviceError, DeviceMemory, Executable, Interop, Statistics};

/// A device that forwards all methods of [`Device`] to another device, except for those that it implements itself.
///
/// Each type with this trait implements [`Device`]. A method that is added to [`Device`] does not compile until it is
/// forwarded here, so that no wrapper can forget it.
pub trait DeviceWrapper: Send + Sync {
    /// Returns the device to which methods are forwarded.
    fn inner(&self) -> &dyn Device;

    /// See [`Device::name`].
    fn name(&self) -> String {
        self.inner().name()
    }

    /// See [`Device::model`].
    fn model(&self) -> String {
        self.inner().model()
    }

    /// See [`Device::capabilities`].
    fn capabilities(&self) -> Capabilities {
        self.inner().capabilities()
    }

    /// See [`Device::shows_variables`].
    fn shows_variables(&self) -> bool {
        self.inner().shows_variables()
    }

    /// See [`Device::memory`].
    fn memory(&self) -> Option<&dyn DeviceMemory> {
        self.inner().memory()
    }

    /// See [`Device::interop`].
    fn interop(&self) -> Option<&dyn Interop> {
        self.inner().interop()
    }

    /// See [`Device::load`].
    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        self.inner().load(kernel, sources)
    }

    /// See [`Device::collectives`].
    fn collectives(&self) -> Result<Box<dyn CollectiveDevice>, CollectiveError> {
        self.inner().collectives()
    }

    /// See [`Device::finish`].
    fn finish(&self) -> Result<(), DeviceError> {
        self.inner().finish()
    }

    /// See [`Device::report_pending_faults`].
    fn report_pending_faults(&self) -> Result<(), DeviceError> {
        self.inner().report_pending_faults()
    }

    /// See [`Device::begin_batch`].
    fn begin_batch(&self) {
        self.inner().begin_batch();
    }

    /// See [`Device::end_batch`].
    fn end_batch(&self) -> Result<(), DeviceError> {
        self.inner().end_batch()
    }

    /// See [`Device::record_timestamp`].
    fn record_timestamp(&self) -> Option<BoxedTimestamp> {
        self.inner().record_timestamp()
    }

    /// See [`Device::spilled`].
    fn spilled(&self) -> u64 {
        self.inner().spilled()
    }

    /// See [`Device::statistics`].
    fn statistics(&self) -> Statistics {
        self.inner().statistics()
    }
}

impl<W: DeviceWrapper> Device for W {
    fn name(&self) -> String {
        DeviceWrapper::name(self)
    }

    fn model(&self) -> String {
        DeviceWrapper::model(self)
    }

    fn capabilities(&self) -> Capabilities {
        DeviceWrapper::capabilities(self)
    }

    fn shows_variables(&self) -> bool {
        DeviceWrapper::shows_variables(self)
    }

    fn memory(&self) -> Option<&dyn DeviceMemory> {
        DeviceWrapper::memory(self)
    }

    fn interop(&self) -> Option<&dyn Interop> {
        DeviceWrapper::interop(self)
    }

    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        DeviceWrapper::load(self, kernel, sources)
    }

    fn collectives(&self) -> Result<Box<dyn CollectiveDevice>, CollectiveError> {
        DeviceWrapper::collectives(self)
    }

    fn finish(&self) -> Result<(), DeviceError> {
        DeviceWrapper::finish(self)
    }

    fn report_pending_faults(&self) -> Result<(), DeviceError> {
        DeviceWrapper::report_pending_faults(self)
    }

    fn begin_batch(&self) {
        DeviceWrapper::begin_batch(self);
    }

    fn end_batch(&self) -> Result<(), DeviceError> {
        DeviceWrapper::end_batch(self)
    }

    fn record_timestamp(&self) -> Option<BoxedTimestamp> {
        DeviceWrapper::record_timestamp(self)
    }

    fn spilled(&self) -> u64 {
        DeviceWrapper::spilled(self)
    }

    fn statistics(&self) -> Statistics {
        DeviceWrapper::statistics(self)
    }
}
