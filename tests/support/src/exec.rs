//! The execution context of tests that compute array expressions without an interpreter.

use std::sync::LazyLock;

use clk_host::ExecContext;

/// Returns a context with a simulator.
pub fn exec() -> &'static ExecContext {
    static CONTEXT: LazyLock<ExecContext> = LazyLock::new(ExecContext::default);
    &CONTEXT
}
