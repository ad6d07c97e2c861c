//! The command line.
//!
//! Exit codes: 0 done, 1 a fatal error (one line on stderr), 2 a command line that makes no sense.
#![allow(clippy::doc_markdown, reason = "doc comments of arguments are help texts, shown as they are")]

mod logging;
mod serve;

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, Subcommand};

/// A validating admission webhook for Cluster API: a Cluster moves only to Kubernetes versions that its ClusterClass
/// carries.
#[derive(Debug, Parser)]
#[command(version, propagate_version = false)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Where a fatal error is written to as well, if the file exists: kubectl describe shows it as the reason of the last
    /// end.
    #[arg(long, global = true, hide = true, value_name = "FILE", default_value = "/dev/termination-log")]
    termination_log: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the webhook
    Serve(Box<serve::Args>),
}

/// Does what the arguments of this process say.
#[must_use]
pub fn run() -> ExitCode {
    let Cli { command, termination_log } = Cli::parse();
    let done = match command {
        Command::Serve(args) => serve::run(*args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error = crate::text::chain(&*error);
            // Who cannot write to stderr cannot be told.
            let _ = writeln!(io::stderr(), "error: {error}");
            tell_kubernetes(&termination_log, &error);
            ExitCode::FAILURE
        }
    }
}

/// Kubernetes makes the file; where it is not there, nobody reads it.
fn tell_kubernetes(termination_log: &Path, error: &str) {
    if let Ok(mut file) = fs::OpenOptions::new().write(true).truncate(true).open(termination_log) {
        let _ = file.write_all(error.as_bytes());
    }
}
