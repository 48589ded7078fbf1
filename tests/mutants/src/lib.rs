//! Breaks the program on purpose, in one place at a time, in a copy of the sources, and sees that a test tells. Must never
//! write into the sources themselves.

pub mod build;
pub mod defect;
pub mod tree;
