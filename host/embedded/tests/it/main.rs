//! The embedded API server as its clients see it: kube in process, kube-runtime on top, kubectl over a socket.

mod apply;
mod collection;
mod fixture;
mod objects;
mod watches;
