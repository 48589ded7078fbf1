//! What is refused, what fails, and that no message says more than it may.
