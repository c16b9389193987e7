//! NVRTC for tests, which are skipped where it is not installed.

use clk_lang::app::libraries::nvrtc_places;
use clk_lang::device::cuda::nvrtc::Nvrtc;

/// Opens NVRTC; if it is not installed, prints that the test is skipped.
pub fn nvrtc() -> Option<Nvrtc> {
    match Nvrtc::open(&nvrtc_places()) {
        Ok(nvrtc) => Some(nvrtc),
        Err(_) => {
            eprintln!("skipped: no NVRTC on this machine");
            None
        }
    }
}
