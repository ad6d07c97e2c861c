//! The real things that tests and benches start: etcd, kube-apiserver, kubectl, and the built webhook with its installation.
//! Everything listens on loopback and ends with the test.
#![allow(dead_code, reason = "each test and bench uses a part of it")]

pub mod certificates;
pub mod control_plane;
pub mod gate;
pub mod http;
pub mod install;
pub mod process;
pub mod webhook;
