//! Clk, a small standalone GPU kernel language.
//!
//! Text goes in at the top and a result comes out at the bottom; nothing flows back up:
//!
//! ```text
//!  .clk text ─▶ syntax ─▶ check ─▶ lower ─▶ ir ─▶ pass ─┬▶ device::sim    lanes of a block in lockstep, on the processor
//!                  AST    typed tree   DeviceIR   Verified └▶ device::cuda   CUDA text ─▶ NVRTC ─▶ an NVIDIA GPU
//!                            └──────▶ host (runs the script, owns arrays, launches through `dyn Device`)
//! ```
//!
//! # The rooms in reading order
//!
//! Each room is a layer or a part of one; a module imports only from lower layers, and rooms of one layer never know each
//! other (`tests/tidy.rs` reads the imports).
//!
//! | layer | room | what it does |
//! | --- | --- | --- |
//! | 0 | [`base`] | knows nothing of Clk: arenas, sources and spans, diagnostics and how they are drawn |
//! | 1 | [`lang`] | the vocabulary of all stages: scalars and their exact arithmetic, operators, the table of builtins, codes |
//! | 2 | [`syntax`] | text to tokens to tree; parsing cannot fail |
//! | 2 | [`ir`] | DeviceIR: definition, builder, text form, verifier |
//! | 3 | [`check`] | names, types, dimensions and worlds: the typed tree |
//! | 3 | [`pass`] | DeviceIR to better DeviceIR, verified before and after |
//! | 3 | [`device`] | what runs DeviceIR: the trait, the simulator, NVIDIA GPUs by CUDA text, both at once to compare |
//! | 3 | [`fmt`] | the one layout of a text: what stands between two tokens |
//! | 4 | [`lower`] | a typed kernel with its compile-time arguments becomes DeviceIR |
//! | 5 | [`compile`] | sources to a checked program, without any I/O of its own |
//! | 6 | [`host`] | values, arrays and the interpreter of scripts |
//! | 6 | [`ide`] | what an editor asks: hover, completion, names, hints; offsets and strings only |
//! | 7 | [`app`] | the only room with I/O: command line, session, files |
//!
//! # Invariants
//!
//! - Broken programs give diagnostics, never panics; a panic is a fault of Clk and is reported as one.
//! - Every node of every tree has a span, so a fault finds its line.
//! - Only a verified module ([`ir::verify::Verified`]) reaches a device.
//! - The arithmetic of [`lang::scalar`] is the only one: folding, host, simulator and CUDA text follow it bit for bit.
//! - One fact has one table: builtins, operators and codes feed checker, help, documentation and tests.

// The tour of a room may name its private modules: `cargo doc --document-private-items` shows them.
#![allow(rustdoc::private_intra_doc_links)]

pub mod app;
pub mod base;
pub mod check;
pub mod compile;
pub mod device;
pub mod fmt;
pub mod host;
pub mod ide;
pub mod ir;
pub mod lang;
pub mod lower;
pub mod pass;
pub mod syntax;
