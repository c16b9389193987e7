//! Arrays as pictures, in files and in the terminal. Pure functions: bytes and text come back.

mod canvas;
mod font;
pub mod image;
pub mod plot;

pub use image::png as image_png;
pub use plot::png as plot_png;
