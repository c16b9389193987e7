//! The surroundings of scripts in tests: printed output, files, and devices.

use std::collections::HashMap;
use std::sync::Arc;

use clk_base::file_error::FileError;
use clk_host::interp::HostEffects;
use clk_host::picture::shown::ShownPicture;
use clk_runtime::{Device, DeviceError, DeviceSelector, Devices};
use clk_sim::Simulator;

/// The printed output of a script that has no files.
#[derive(Default)]
pub struct CapturedOutput(pub String);

impl HostEffects for CapturedOutput {
    fn print(&mut self, text: &str) {
        self.0 += text;
    }
    fn show(&mut self, _: ShownPicture) {}
    fn read(&mut self, _: &str) -> Result<Vec<u8>, FileError> {
        Err(FileError::Refused("it is not there"))
    }
    fn write(&mut self, _: &str, _: &[u8]) -> Result<(), FileError> {
        Ok(())
    }
}

/// The printed output of a script, and its files, which are kept in memory.
#[derive(Default)]
pub struct FilesInMemory {
    pub printed: String,
    pub files: HashMap<String, Vec<u8>>,
}

impl HostEffects for FilesInMemory {
    fn print(&mut self, text: &str) {
        self.printed += text;
    }
    fn show(&mut self, _: ShownPicture) {}
    fn read(&mut self, path: &str) -> Result<Vec<u8>, FileError> {
        self.files.get(path).cloned().ok_or(FileError::Refused("it is not there"))
    }
    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), FileError> {
        self.files.insert(path.into(), bytes.into());
        Ok(())
    }
}

/// Simulators that act as the devices of one machine.
pub struct SimulatorNode(pub Vec<Arc<Simulator>>);

impl SimulatorNode {
    /// Returns a machine with this many devices.
    pub fn new(count: usize) -> SimulatorNode {
        SimulatorNode((0..count).map(|_| Arc::new(Simulator::default())).collect())
    }
}

impl Devices for SimulatorNode {
    fn open(&self, selector: DeviceSelector) -> Result<Arc<dyn Device>, DeviceError> {
        let number = match selector {
            DeviceSelector::Sim(number) | DeviceSelector::Gpu(number) => number.unwrap_or(0) as usize,
        };
        let unavailable =
            || DeviceError::Unavailable { device: format!("sim:{number}"), why: "it is not there".into() };
        Ok(self.0.get(number).ok_or_else(unavailable)?.clone())
    }
}
