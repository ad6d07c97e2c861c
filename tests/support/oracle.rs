//! The programs that answer with what Cluster API's own functions return; `tests/oracle/build.sh` builds them.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

/// The path of an oracle, which is built if this machine has none.
pub fn build(release: &str, program: &str) -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/build.sh");
    let built = Command::new(script).args([release, program]).stderr(Stdio::inherit()).output().unwrap();
    assert!(built.status.success(), "the {program} oracle of Cluster API {release} cannot be built");
    String::from_utf8(built.stdout).unwrap().trim().into()
}
