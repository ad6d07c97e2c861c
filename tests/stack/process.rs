//! Long-lived child processes that never outlive the test.

use std::{
    fs::{File, OpenOptions},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{OnceLock, mpsc},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

/// A running program. Dropping it kills it; the kernel kills it too if the test itself is killed.
pub struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program`, whose output is appended to `log`.
    pub fn start(
        name: &'static str,
        program: &Path,
        args: &[String],
        env: &[(&str, &str)],
        log: &Path,
    ) -> Result<Self> {
        // The kernel's "kill me when my parent dies" is about the parent *thread*, and a scenario's thread ends early.
        type Job = (Command, mpsc::Sender<std::io::Result<Child>>);
        static SPAWNER: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
        let spawner = SPAWNER.get_or_init(|| {
            let (jobs, waiting) = mpsc::channel::<Job>();
            thread::spawn(move || {
                for (mut command, done) in waiting {
                    // Whoever asked has gone if this fails; then the Child is dropped and dies with this process.
                    let _ = done.send(command.spawn());
                }
            });
            jobs
        });
        let output = append_to(log)?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program).args(args).envs(env.iter().copied());
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let (done, child) = mpsc::channel();
        spawner.send((command, done)).ok().context("the thread that starts programs has ended")?;
        let child = child.recv()?.with_context(|| format!("failed to start {name} by setpriv (of util-linux)"))?;
        Ok(Self { name, child, log: log.to_owned() })
    }

    /// Waits until `ready` says so.
    pub fn wait_until<T>(&mut self, what: &str, ready: impl Fn() -> Option<T>) -> Result<T> {
        let start = Instant::now();
        loop {
            if let Some(ready) = ready() {
                return Ok(ready);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status} before it was {what}:\n{}", self.name, self.last_lines());
            }
            ensure!(
                start.elapsed() < Duration::from_mins(1),
                "{} is not {what} after 60 s:\n{}",
                self.name,
                self.last_lines()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The id of its process: `setpriv` has become the program.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, as a crash would, and waits until it is gone.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn last_lines(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Keeps the processors from idling. On virtual machines it takes longer to wake an idle one than to answer a review, and
/// whether one idles between two requests turns on a few microseconds: that would be measured, not the servers. The
/// lowest priority leaves the time to whoever wants it.
pub fn keep_awake() -> Result<Vec<Process>> {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let spin = ["-n", "19", "sh", "-c", "while :; do :; done"].map(ToOwned::to_owned);
    let log = std::env::temp_dir().join("capi-version-guard-bench.log");
    (0..cores).map(|_| Process::start("a spinner", "nice".as_ref(), &spin, &[], &log)).collect()
}

fn append_to(log: &Path) -> Result<File> {
    OpenOptions::new().create(true).append(true).open(log).with_context(|| format!("failed to open {}", log.display()))
}
