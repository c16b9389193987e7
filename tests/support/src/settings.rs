//! The root of the repository, and environment variables that configure tests.

use std::path::Path;
use std::str::FromStr;

/// Returns the root of the repository.
pub fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().and_then(Path::parent).expect("this crate is in tests/support")
}

/// Returns the value of an environment variable, or `default` if it is not set. A value of the wrong type is an error,
/// since a run with the default would look like the requested one.
pub fn setting<T: FromStr>(name: &str, default: T) -> T {
    optional_setting(name).unwrap_or(default)
}

/// Returns the value of an environment variable if it is set.
pub fn optional_setting<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} cannot be parsed")))
}
