//! capi-version-guard: a validating admission webhook for Cluster API versions.
pub mod model;
pub mod version;
