//! Numbers of a profile as texts: times, counts, ratios and parts.

/// Returns a time with its unit.
pub(super) fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 1e-3 => (1e6 * s, "µs"),
        s if s < 1.0 => (1e3 * s, "ms"),
        s => (s, "s"),
    };
    match value {
        v if v < 10.0 => format!("{v:.1} {unit}"),
        v => format!("{v:.0} {unit}"),
    }
}

/// Returns a count in four places at most.
pub(super) fn count(n: u64) -> String {
    let scaled = |by: f64, unit: &str| {
        let value = n as f64 / by;
        if value < 10.0 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
    };
    match n {
        0 => String::new(),
        n if n < 10_000 => n.to_string(),
        n if n < 9_950_000 => scaled(1e3, "k"),
        n if n < 9_950_000_000 => scaled(1e6, "M"),
        n if n < 9_950_000_000_000 => scaled(1e9, "G"),
        _ => scaled(1e12, "T"),
    }
}

/// Returns a quotient; nothing of nothing.
pub(super) fn ratio(a: u64, b: u64) -> String {
    if b == 0 { String::new() } else { format!("{:.1}", a as f64 / b as f64) }
}

/// Returns a part in percent.
pub(super) fn percent(part: f64) -> String {
    format!("{:.0}%", 100.0 * part)
}
