//! The aish helper.
fn main() {}
