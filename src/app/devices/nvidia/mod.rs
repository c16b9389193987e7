//! NVIDIA GPUs in the list of devices: libraries, settings, descriptions, and the code that `clk emit` prints.

mod emit;
pub mod libraries;

use std::path::Path;
use std::sync::Arc;

#[cfg(target_os = "linux")]
use super::back_end::Isolate;
use super::back_end::{BackEndError, GpuBackEnd, GpuCodeOptions, GpuSetup};
use crate::disk;
use clk_cuda::driver::nvidia;
use clk_cuda::nvrtc::Nvrtc;
use clk_cuda::text::CodegenOptions;
use clk_cuda::{CudaGpu, GpuSettings, no_nvrtc};
use clk_runtime::import::ForeignStream;
#[cfg(target_os = "linux")]
use clk_runtime::worker_process::{ChildRole, SharedSegment};
use clk_runtime::{Device, DeviceError, ThreadStateGuard, size};

pub(crate) use emit::CudaEmitter;

pub(super) struct NvidiaGpus;

impl GpuBackEnd for NvidiaGpus {
    fn count(&self) -> Result<u32, BackEndError> {
        Ok(nvidia::count()?)
    }

    fn describe(&self, number: u32) -> String {
        match nvidia::probe(number) {
            Err(absent) => absent.to_string(),
            Ok(gpu) => format!(
                "{}, {}, sm_{}, {} multiprocessors, driver for CUDA {}.{}",
                gpu.name,
                size(gpu.memory),
                gpu.architecture,
                gpu.multiprocessors,
                gpu.driver / 1000,
                gpu.driver % 1000 / 10
            ),
        }
    }

    fn open(&self, number: u32, setup: GpuSetup<'_>) -> Result<Arc<dyn Device>, DeviceError> {
        Ok(Arc::new(CudaGpu::open(number, settings(setup))?))
    }

    fn libraries(&self) -> Vec<(&'static str, String)> {
        let nvrtc = match Nvrtc::open(&libraries::nvrtc_places()) {
            Ok(nvrtc) => {
                let (major, minor) = nvrtc.version();
                format!("{major}.{minor}, {}", nvrtc.place().display())
            }
            Err(complaints) => format!("none: {}", no_nvrtc(&complaints)),
        };
        vec![("nvrtc", nvrtc)]
    }

    #[cfg(target_os = "linux")]
    fn serve(
        &self,
        role: ChildRole,
        number: u32,
        socket: std::os::unix::net::UnixStream,
        segment: std::os::fd::OwnedFd,
    ) -> std::io::Result<()> {
        let gpu = nvidia::GpuByOrdinal(number);
        match role {
            ChildRole::Keeper => clk_cuda::isolate::keep(&gpu, socket),
            ChildRole::Worker => clk_cuda::isolate::work(&gpu, socket, SharedSegment::open(segment)?),
        }
    }

    fn preserve_thread_state(&self) -> ThreadStateGuard {
        clk_cuda::preserve_thread_state()
    }

    fn lender_stream(&self, number: u32) -> Result<ForeignStream, BackEndError> {
        Ok(ForeignStream(nvidia::meeting(number)?))
    }

    fn is_capturing(&self, stream: ForeignStream) -> bool {
        nvidia::is_recorded(stream.0)
    }

    fn owner_of(&self, address: u64) -> Option<u32> {
        nvidia::owner(address)
    }
}

/// Returns the options of the code generator.
fn codegen_options(options: GpuCodeOptions) -> CodegenOptions {
    let GpuCodeOptions { checked, coarsen, fast_math, contract } = options;
    CodegenOptions { checked, coarsen, fast_math, contract, ..CodegenOptions::default() }
}

fn settings(setup: GpuSetup<'_>) -> GpuSettings {
    let options = setup.options;
    GpuSettings {
        nvrtc: libraries::nvrtc_places(),
        nccl: libraries::nccl_places(),
        machine: machine_id(),
        timed: options.timed,
        lines: options.lines,
        text: codegen_options(options.text),
        tensor: options.tensor,
        relies: options.relies,
        tell: Some(|what| eprintln!("note: {what}")),
        #[cfg(target_os = "linux")]
        isolation: isolation(&setup),
        store: setup.store,
    }
}

#[cfg(target_os = "linux")]
fn isolation(setup: &GpuSetup<'_>) -> Option<clk_cuda::Isolation> {
    let tell =
        |why: &str| eprintln!("note: kernels run in this process, since others cannot use the GPU together: {why}");
    let fallback_notice: Option<fn(&str)> = match setup.isolate {
        Isolate::No => return None,
        Isolate::IfPossible => Some(tell),
        Isolate::Yes => None,
    };
    let (starter, replay_device) = (setup.starter.clone(), setup.replay_device.clone());
    Some(clk_cuda::Isolation { starter, replay_device, fallback_notice })
}

/// Returns an identifier of this machine. Processes compare it to determine whether they share a GPU; containers on one
/// machine have the same identifier.
fn machine_id() -> String {
    let bytes = disk::read(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_options_have_the_defaults_of_the_code_generator() {
        assert_eq!(codegen_options(GpuCodeOptions::default()), CodegenOptions::default());
    }
}
