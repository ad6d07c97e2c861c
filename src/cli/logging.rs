//! Logs go to stderr, one line each.

use std::io::{self, IsTerminal};

use anyhow::Context;
use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

const LEVELS: &str = "RUST_LOG";

/// kube's client logs the whole body of what it cannot decode, and its watcher every 403 besides returning it, at `warn`;
/// actix tells of its workers, at `info`.
const QUIET: [(&str, &str); 3] =
    [("kube_client::client", "error"), ("kube_runtime::watcher", "error"), ("actix_server", "warn")];

#[derive(Debug, Args)]
#[command(next_help_heading = "Logs")]
pub(super) struct LogArgs {
    /// Format of the logs; RUST_LOG sets the levels (default: info)
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl LogArgs {
    /// Sends the program's logs, panics included, to stderr.
    pub(super) fn init(self) -> anyhow::Result<()> {
        let Self { log_format } = self;
        let levels = std::env::var(LEVELS).ok().filter(|levels| !levels.is_empty());
        let filter = filter(levels.as_deref()).with_context(|| format!("failed to read {LEVELS}"))?;
        let logs = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(io::stderr)
            .with_ansi(io::stderr().is_terminal())
            .with_target(false);
        let set = match log_format {
            LogFormat::Text => logs.try_init(),
            LogFormat::Json => logs.json().flatten_event(true).try_init(),
        };
        set.map_err(|error| anyhow::anyhow!("failed to set up logs: {error}"))?;
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            tracing::error!(place, "panic: {}", panic.payload_as_str().unwrap_or_default().escape_debug());
        }));
        Ok(())
    }
}

fn filter(levels: Option<&str>) -> anyhow::Result<EnvFilter> {
    let levels = levels.unwrap_or("info");
    let mut filter = EnvFilter::try_new(levels)?;
    for (target, level) in QUIET {
        // Who names a target wants it as named.
        if !levels.contains(target) {
            filter = filter.add_directive(format!("{target}={level}").parse()?);
        }
    }
    Ok(filter)
}
