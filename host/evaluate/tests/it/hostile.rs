//! Hostile texts.
