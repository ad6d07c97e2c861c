//! The server as the API server, Kubernetes and its operator meet it: over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs, unreachable_pub)]
// A table of cases is long, not intricate.
#![allow(clippy::too_many_lines)]

mod admission;
mod client;
mod health;
mod limits;
mod process;
mod running;
mod tls;
