//! The lane-vectorised simulator.
