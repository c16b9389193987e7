//! Tests the language: front end, checker, formatter, lowering, scalar arithmetic, derivatives and proofs.

mod builtins;
mod check_messages;
mod check_names;
mod check_pages;
mod check_robust;
mod compile_session;
mod contracts;
mod derivatives;
mod derive;
mod diagnostics;
mod explain;
mod fmt;
mod foreign_names;
mod front_end;
mod front_end_errors;
mod front_end_speed;
mod fuzz_front_end;
mod growth;
mod linear;
mod lower_kernels;
mod promises;
mod prove;
mod scalar_exact;
mod scalar_math;
mod scalar_rsqrt;
