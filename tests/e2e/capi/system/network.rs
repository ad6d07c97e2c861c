//! A network of its own for everything that a test starts: Cluster API's manager listens on all interfaces, and here `lo` is
//! the only one.

use std::{
    env,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, ensure};

/// Set in the process that runs inside.
const INSIDE: &str = "CAPI_VERSION_GUARD_OWN_NETWORK";

/// Whether this process runs inside.
pub fn is_own() -> bool {
    env::var_os(INSIDE).is_some()
}

/// Runs this program again, with its arguments, in a network namespace that has only `lo`, and gives its exit code.
pub fn run_inside() -> Result<ExitCode> {
    let mut command = Command::new("unshare");
    // Whoever is not root becomes it in a user namespace; root may be forbidden to make one.
    if !is_root()? {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--", "sh", "-c", r#"ip link set lo up && exec "$0" "$@""#]);
    let status = command
        .arg(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env(INSIDE, "1")
        .status()
        .context("failed to run unshare (apt-get install util-linux)")?;
    // `sh` could not run `ip`.
    ensure!(
        status.code() != Some(127),
        "failed to set up a network of its own: ip is missing (apt-get install iproute2)"
    );
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

fn is_root() -> Result<bool> {
    let status = std::fs::read_to_string("/proc/self/status").context("failed to read /proc/self/status")?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).context("a process without a user")?;
    // Real, effective, saved, file system.
    Ok(ids.split_whitespace().nth(1) == Some("0"))
}
