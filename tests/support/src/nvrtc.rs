//! Opens NVRTC for tests, which are skipped if it is not installed.

use clk_cuda::nvrtc::{Nvrtc, NvrtcPath};

/// Opens NVRTC at the first of these places; if it is not installed, prints that the test is skipped.
pub fn nvrtc(places: &[NvrtcPath]) -> Option<Nvrtc> {
    match Nvrtc::open(places) {
        Ok(nvrtc) => Some(nvrtc),
        Err(_) => {
            eprintln!("skipped: no NVRTC on this machine");
            None
        }
    }
}
