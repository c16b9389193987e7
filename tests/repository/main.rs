//! Tests the repository itself: rules for source files, dependencies, and the editor packages.

mod dependencies;
mod editors;
mod embedded_files;
mod tidy;
