//! capi-version-guard: a validating admission webhook for Cluster API. A Cluster moves only to Kubernetes versions that its
//! ClusterClass carries, and a ClusterClass never abandons the Clusters that use it.
//!
//! # The house
//!
//! Floors, bottom up; a floor knows those below it. Below [`server`], [`cli`] and [`fleet::watch`] nothing knows kube, actix,
//! tokio or a clock.
//!
//! | room | |
//! |---|---|
//! | [`version`] | parsing and comparing as Cluster API does; a partial order |
//! | [`model`] | Cluster and ClusterClass as they are read: slim, lenient; [`model::Change`] |
//! | [`text`] | how objects and what users wrote are named in one bounded line |
//! | [`planner`] | Cluster API's upgrade planner, emulated per release, what becomes of a plan, and the plan that we recommend. |
//! | [`fleet`] | the index: which Cluster uses which class at which version, and what runs of it. A pure fold of events; [`fleet::watch`] (Kubernetes) and [`fleet::manifests`] (files) feed it |
//! | [`rules`] | one file per rule; the registry is [`rules::RULES`]. Pure: a change and what the fleet knows, to findings |
//! | [`verdict`] | findings and configured modes, to allow or deny, with the texts |
//! | [`review`] | AdmissionReview JSON, to a change and back from a verdict |
//! | [`config`] | the configuration file |
//! | [`server`] | the webhook over TLS, probes, metrics; [`server::judge`] decides from the index and confirms by quorum reads |
//! | [`cli`] | one file per subcommand |
//!
//! # The way of a request
//!
//! Bytes, [`review::parse`], a [`model::Change`]; [`rules::ClusterCase::of`] or [`rules::ClassCase::of`] (the ratchet: nothing
//! judged changes? then it is allowed and nothing is looked up); [`server::judge::Judge`] with one view of the fleet; the
//! rules; a [`verdict::Verdict`]; [`review::Request::respond`]. A rule never parses, a handler never decides.

pub mod cli;
pub mod config;
pub mod fleet;
pub mod model;
pub mod planner;
pub mod review;
pub mod rules;
pub mod server;
pub mod text;
pub mod verdict;
pub mod version;
