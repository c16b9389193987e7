//! x
mod reference;
#[test]
fn t() {
    let _ = reference::launch;
    let _ = reference::same_array;
}
