//! Real servers for tests: a Kubernetes control plane with etcd, KubeStellar's controller-manager and its transport, and the program under
//! test as a process of its own. Each is started with ports and a folder of its own, and ends with the test process, however that ends.
//!
//! Must not know the program's inside: it is a binary, a kubeconfig and what stands in the API server. (The simulated clusters are those of
//! the playground, so that what a cluster answers is no difference between two back ends.)

pub mod assets;
pub mod audit;
pub mod bench;
pub mod certificates;
pub mod control_plane;
pub mod controller;
pub mod definitions;
pub mod etcd;
pub mod host;
pub mod installation;
pub mod kubestellar;
pub mod ports;
pub mod process;
pub mod servers;
pub mod transport;
pub mod usage;
