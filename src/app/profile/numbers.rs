//! Formats the numbers of a profile: times, counts, ratios and percentages.

/// Formats a time in a suitable unit.
pub(super) fn format_time(seconds: f64) -> String {
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

/// Formats a count with at most four digits, using a suffix for large numbers.
pub(super) fn format_count(n: u64) -> String {
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

/// Formats the quotient of two numbers. Returns an empty text if the divisor is 0.
pub(super) fn format_ratio(a: u64, b: u64) -> String {
    if b == 0 { String::new() } else { format!("{:.1}", a as f64 / b as f64) }
}

/// Formats a fraction as a percentage.
pub(super) fn format_percent(part: f64) -> String {
    format!("{:.0}%", 100.0 * part)
}
