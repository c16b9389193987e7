//! The clock that durations are measured with: the system's, or in a browser that of the page.

#[cfg(not(target_family = "wasm"))]
pub use std::time::Instant;

#[cfg(target_family = "wasm")]
pub use page::Instant;

#[cfg(target_family = "wasm")]
mod page {
    use std::time::Duration;

    #[link(wasm_import_module = "clk")]
    unsafe extern "C" {
        /// Returns milliseconds since some time before the program was loaded.
        safe fn now() -> f64;
    }

    /// A moment, as that of the standard library, which has no clock on this target.
    #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
    pub struct Instant(f64);

    impl Instant {
        pub fn now() -> Instant {
            Instant(now())
        }

        pub fn elapsed(&self) -> Duration {
            Instant::now().duration_since(*self)
        }

        pub fn duration_since(&self, earlier: Instant) -> Duration {
            // Clocks of browsers may be set back.
            Duration::try_from_secs_f64((self.0 - earlier.0) / 1e3).unwrap_or_default()
        }
    }
}
