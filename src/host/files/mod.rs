//! stub
use crate::host::{
    problem::{Outcome, Problem},
    value::Value,
};
pub fn decode(_n: &str, _b: &[u8]) -> Outcome<Value> {
    Err(Problem::new("E0703", ""))
}
pub fn encode(_n: &str, _v: &[(Option<&str>, &Value)]) -> Outcome<Vec<u8>> {
    Err(Problem::new("E0703", ""))
}
