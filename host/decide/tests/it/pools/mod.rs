//! The rules of node pools over worlds that are plain data: properties that are tried on seeds, and single decisions.

mod answers;
mod cases;
mod draw;
mod memo;
mod properties;
mod rollouts;
mod server;
mod world;
