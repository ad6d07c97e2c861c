//! capi-version-guard: a validating admission webhook for Cluster API versions.
pub mod config;
pub mod fleet;
pub mod model;
pub mod planner;
pub mod review;
pub mod rules;
pub mod server;
pub mod verdict;
pub mod version;
