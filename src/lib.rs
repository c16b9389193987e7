//! Clk, a small standalone GPU kernel language.
//!
//! Data flows in one direction, from text to result:
//!
//! ```text
//!  .clk text ─▶ syntax ─▶ check ─▶ lower ─▶ ir ─▶ pass ─┬▶ device::sim    lanes of a block in lockstep, on the processor
//!                  AST    typed tree   DeviceIR   Verified └▶ device::cuda   CUDA text ─▶ NVRTC ─▶ an NVIDIA GPU
//!                            └──────▶ host (runs the script, owns arrays, launches through `dyn Device`)
//! ```
//!
//! # Modules in reading order
//!
//! Each top-level module belongs to a layer. A module imports only from lower layers, so modules of the same layer are
//! independent of each other: each is a crate of its own, in the folder of its name, so that the compiler checks it, and an edit
//! compiles its own layer and those above. Within a module, too, files import in one direction: what two files share lies in a third
//! below them, as `tests/tidy.rs` checks.
//!
//! | layer | module | purpose |
//! | --- | --- | --- |
//! | 0 | [`base`] | infrastructure independent of Clk: arenas, sources and spans, diagnostics and their rendering |
//! | 1 | [`lang`] | vocabulary of all stages: scalars and their exact arithmetic, operators, the table of builtins, codes |
//! | 2 | [`syntax`] | from text to tokens to a syntax tree; parsing always gives a tree |
//! | 2 | [`ir`] | DeviceIR: definition, builder, text form, verifier |
//! | 3 | [`check`] | name resolution and type checking, with dimensions and the host/device distinction: the typed tree |
//! | 3 | [`pass`] | optimization passes on DeviceIR, verified before and after |
//! | 3 | [`device`] | execution of DeviceIR: the `Device` trait, the simulator, NVIDIA GPUs via CUDA text, and a comparison of both |
//! | 3 | [`fmt`] | the formatter, which determines the whitespace between tokens |
//! | 4 | [`lower`] | from a typed kernel with its compile-time arguments to DeviceIR |
//! | 4 | [`mod@derive`] | derivatives of kernels: from DeviceIR to DeviceIR |
//! | 5 | [`compile`] | from sources to a checked program, without I/O of its own |
//! | 6 | [`host`] | values, arrays and the interpreter of scripts |
//! | 6 | [`prove`] | proofs that a kernel is right for every size, and counterexamples that a run confirms |
//! | 6 | [`profile`] | what launches cost a GPU: lines, bounds on time, advice |
//! | 6 | [`ide`] | queries of editors: hover, completion, names, hints; offsets and strings only |
//! | 7 | [`app`] | the only module with I/O: command line, session, servers, files |
//!
//! # Invariants
//!
//! - Invalid programs give diagnostics, never panics; a panic is a bug in Clk and is reported as one.
//! - Every node of every tree has a span, so every error can be located.
//! - Only a verified module ([`ir::verify::Verified`]) reaches a device.
//! - [`lang::scalar`] defines all arithmetic: folding, host, simulator and CUDA text agree with it bit for bit.
//! - Every fact is stored in one table: builtins, operators and codes are shared by checker, help, documentation and tests.

// Module docs may link to private items: `cargo doc --document-private-items` shows them.
#![allow(rustdoc::private_intra_doc_links)]

pub mod app;
pub use clk_lang_base::base;
pub use clk_lang_check::check;
pub use clk_lang_compile::compile;
pub use clk_lang_derive::derive;
pub use clk_lang_device::device;
pub use clk_lang_fmt::fmt;
pub use clk_lang_host::host;
pub use clk_lang_ide::ide;
pub use clk_lang_ir::ir;
pub use clk_lang_lang::lang;
pub use clk_lang_lower::lower;
pub use clk_lang_pass::pass;
pub use clk_lang_profile::profile;
pub use clk_lang_prove::prove;
pub use clk_lang_syntax::syntax;
