//! Diagnostics as text for a terminal and as JSON lines: the only file that knows ariadne.
