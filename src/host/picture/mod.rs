//! Arrays as pictures, in files and in the terminal. Pure functions: bytes and text come back.

pub mod image;
