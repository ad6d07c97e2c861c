//! What tests with a main function of their own have in common: one system for all trials, whose logs are kept if one fails.

use std::process::ExitCode;

use anyhow::Result;
use libtest_mimic::{Arguments, Trial};
use tempfile::TempDir;

/// The exit code; says what kept the trials from running.
pub fn exit(run: Result<ExitCode>) -> ExitCode {
    run.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Answers `--list`, for which nothing has to be started.
pub fn list(arguments: &Arguments, names: impl IntoIterator<Item = String>) -> ExitCode {
    let trials = names.into_iter().map(|name| Trial::test(name, || Ok(())));
    libtest_mimic::run(arguments, trials.collect()).exit_code()
}

/// Runs the trials; if one fails, says where the logs are.
pub fn run(arguments: &Arguments, trials: impl IntoIterator<Item = Trial>, directory: TempDir) -> ExitCode {
    let conclusion = libtest_mimic::run(arguments, trials.into_iter().collect());
    if conclusion.has_failed() {
        eprintln!("logs: {}", directory.keep().display());
    }
    conclusion.exit_code()
}
