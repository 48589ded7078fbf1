//! One binary for all rows of data: facts in, questions or a plan out.

mod staging;
