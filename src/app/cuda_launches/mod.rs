//! Launches of the kernels of a CUDA file, for `clk run`, `clk profile` and `clk debug`. Input: the launches in the
//! host code of the file, and options of the command line. Output: launches with numbers for all sizes and generated
//! arrays.
//!
//! - [`plan`] determines the launches: [`sizes`] chooses the numbers.
//! - [`planned_launch`] runs a launch: [`inputs`] has the contents of arrays.
//! - [`report`] runs the launches under checks, and [`text`] describes them.
//!
//! A launch is compiled as a statement of a script, like that of a request of `clk launch`.

mod inputs;
mod parameters;
mod plan;
mod planned_launch;
pub(crate) mod report;
mod sizes;
mod text;

pub(crate) use inputs::scalar_of;
pub(crate) use plan::{CudaLaunchOptions, CudaLaunchPlan};
