//! The back end for WebGPU in the list of devices.

use std::sync::Arc;

use super::back_end::{GpuBackEnd, GpuSetup};
use clk_runtime::import::ForeignStream;
#[cfg(target_os = "linux")]
use clk_runtime::worker_process::ChildRole;
use clk_runtime::{Device, DeviceError, ThreadStateGuard};
use clk_wgsl::WgslGpu;

pub(super) struct WgslGpus;

impl GpuBackEnd for WgslGpus {
    fn count(&self) -> Result<u32, String> {
        Ok(1)
    }

    fn describe(&self, _: u32) -> String {
        "WebGPU text, validated and run in the stepper".into()
    }

    fn open(&self, _: u32, _: GpuSetup<'_>) -> Result<Arc<dyn Device>, DeviceError> {
        Ok(Arc::new(WgslGpu::default()))
    }

    fn libraries(&self) -> Vec<(&'static str, String)> {
        vec![("naga", "27".into())]
    }

    #[cfg(target_os = "linux")]
    fn serve(
        &self,
        _: ChildRole,
        _: u32,
        _: std::os::unix::net::UnixStream,
        _: std::os::fd::OwnedFd,
    ) -> std::io::Result<()> {
        Err(std::io::Error::other("kernels of this device need no process"))
    }

    fn preserve_thread_state(&self) -> ThreadStateGuard {
        Box::new(())
    }

    fn lender_stream(&self, _: u32) -> Result<ForeignStream, String> {
        Err("this device shares no arrays".into())
    }

    fn is_capturing(&self, _: ForeignStream) -> bool {
        false
    }

    fn owner_of(&self, _: u64) -> Option<u32> {
        None
    }
}
