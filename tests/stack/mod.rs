//! The real things that tests and benches start: etcd, kube-apiserver, kubectl, and the built webhook with its installation.
//! Everything listens on loopback and ends with the test.
#![allow(dead_code, reason = "each test and bench uses a part of it")]

pub mod certificates;
pub mod control_plane;
pub mod etcd;
pub mod gate;
pub mod http;
pub mod install;
pub mod process;
pub mod slow_watch;
pub mod spread;
pub mod tls;
pub mod trials;
pub mod webhook;

use std::{fs, path::Path};

use anyhow::Result;

/// A directory for this run of `test`. Those that killed or failed runs left behind are removed.
pub fn directory(test: &str) -> Result<tempfile::TempDir> {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for entry in fs::read_dir(all)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let owner = name.strip_prefix(test).and_then(|name| name.strip_prefix('-')?.split('-').next());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
            fs::remove_dir_all(&path)?;
        }
    }
    Ok(tempfile::Builder::new().prefix(&format!("{test}-{}-", std::process::id())).tempdir_in(all)?)
}
