//! Conversion between `file:` URIs and paths.

use std::path::{Path, PathBuf};

/// Returns the path of a `file:` URI.
pub(crate) fn to_path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    // The host in the URI may be empty or `localhost`.
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let mut bytes = Vec::with_capacity(path.len());
    let mut at = path.bytes();
    while let Some(byte) = at.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [at.next()?, at.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    let path = String::from_utf8(bytes).ok()?;
    // On Windows, a path with a drive is written as `/C:/…`.
    let drive = path.as_bytes().get(2) == Some(&b':') && cfg!(windows);
    Some(PathBuf::from(if drive { path.trim_start_matches('/').to_owned() } else { path }))
}

/// Returns the `file:` URI of a path.
pub(crate) fn from_path(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "/");
    let root = if text.starts_with('/') { "" } else { "/" };
    format!("file://{root}{}", percent_encode(&text))
}

/// Escapes all bytes that may not be in the path of a URI. Slashes are kept.
pub(crate) fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte as char),
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_round_trip() {
        let path = Path::new("/a b/é/100%.clk");
        let uri = from_path(path);
        assert_eq!(uri, "file:///a%20b/%C3%A9/100%25.clk");
        assert_eq!(to_path(&uri).as_deref(), Some(path));
        assert_eq!(to_path("untitled:1"), None);
        assert_eq!(to_path("file:///%zz"), None);
        assert_eq!(to_path("file:///%"), None);
    }
}
