//! The clock that measures durations: the system's, or the page's clock in a browser.

#[cfg(not(target_family = "wasm"))]
pub use std::time::Instant;

#[cfg(target_family = "wasm")]
pub use page::Instant;

#[cfg(target_family = "wasm")]
mod page {
    use std::time::Duration;

    #[link(wasm_import_module = "clk")]
    unsafe extern "C" {
        /// Returns the milliseconds since an unspecified time before the program was loaded.
        safe fn now() -> f64;
    }

    /// Replacement for the standard library's `Instant`, which has no clock on this target.
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
            // A browser's clock may go backward.
            Duration::try_from_secs_f64((self.0 - earlier.0) / 1e3).unwrap_or_default()
        }
    }
}
