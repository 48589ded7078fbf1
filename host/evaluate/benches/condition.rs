//! What an evaluation and the conversion of its object cost, in copies of that object.
//!
//! Placeholder until measured.
fn main() {}
