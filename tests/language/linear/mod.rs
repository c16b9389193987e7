//! Tests the decision procedure for integer linear arithmetic with brute force, Z3, mutated certificates and
//! hand-written problems.
mod brute;
mod corpus;
mod forms;
mod random;
mod robust;
mod text;
mod z3;
