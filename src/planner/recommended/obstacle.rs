//! Why there is no plan to recommend, in stable names and in one sentence each.

use std::fmt;

use crate::text::quoted;

/// A minor version of Kubernetes, such as 1.31.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minor {
    /// The major.
    pub major: u64,
    /// The minor.
    pub minor: u64,
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Why there is no plan to recommend. Its [`Display`](fmt::Display) form is a sentence in one line, the texts bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRecommendation {
    /// The kind of obstacle.
    pub obstacle: Obstacle,
    /// The version in question: that of a worker set if the obstacle is one, else the control plane's. If a version does
    /// not parse, that one.
    pub at: String,
    /// What it collides with: the target or the control plane's version. Empty if a version does not parse.
    pub against: String,
    /// The smallest set of minors such that the list makes a plan when it gets an entry for each of them, ascending. Every
    /// set that makes one contains it. Empty if no addition to the list helps.
    pub missing: Vec<Minor>,
}

impl NoRecommendation {
    pub(super) fn new(obstacle: Obstacle, at: &str, against: &str) -> Self {
        Self { obstacle, at: at.to_owned(), against: against.to_owned(), missing: Vec::new() }
    }
}

impl std::error::Error for NoRecommendation {}

impl fmt::Display for NoRecommendation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, against) = (quoted(&self.at), quoted(&self.against));
        let missing = || self.missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self.obstacle {
            Obstacle::Unparsable => write!(f, "{at} is not a version"),
            Obstacle::TargetNotStrict => write!(f, "no Cluster can name the target {against}"),
            Obstacle::AnotherMajor => write!(f, "no upgrade leads across majors, from {at} to {against}"),
            Obstacle::OtherSpelling => {
                write!(f, "{at} and {against} are equal, so Cluster API sees no step between them")
            }
            Obstacle::TargetLower => write!(f, "the target {against} is lower than {at}, which runs"),
            Obstacle::UnorderedBuildTags => {
                write!(f, "the build tags of {at} and {against} have no order, and the list does not hold both")
            }
            Obstacle::WorkerAboveTarget => write!(f, "workers at {at} are above the target {against}"),
            Obstacle::WorkerAboveControlPlane => {
                write!(f, "workers at {at} are newer than the control plane at {against}")
            }
            Obstacle::WorkerTooFarBehind => {
                write!(f, "workers at {at} are too far behind the control plane at {against}")
            }
            Obstacle::WorkerBuildTag => {
                write!(f, "Cluster API does not move workers from {at} to {against}: the build tags have no order")
            }
            Obstacle::TooManyHops => write!(f, "more than 32 hops from {at} to {against}"),
            Obstacle::MissingStep => write!(
                f,
                "workers at {at} have to move before the control plane leaves the minor of {against}, where they cannot all \
                 follow it; missing: {}",
                missing()
            ),
            Obstacle::MissingMinors => write!(f, "no way from {at} to {against}; missing: {}", missing()),
        }
    }
}

/// The kinds of obstacles, with stable names. Only the last two have missing minors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// A version that even the lenient parser refuses.
    Unparsable,
    /// The target is not `v` and strict semver.
    TargetNotStrict,
    /// Control plane, workers and target are not of one major.
    AnotherMajor,
    /// A version equals the target in value but not in text: Cluster API sees something to do, and no step to take.
    OtherSpelling,
    /// The target is lower than what runs; with build tags that have no order, it comes earlier in the list.
    TargetLower,
    /// The build tags of control plane and target have no order, and the list does not hold both.
    UnorderedBuildTags,
    /// Workers are higher than the target.
    WorkerAboveTarget,
    /// Workers are a minor or more above the control plane: the skew policy is violated before the first step.
    WorkerAboveControlPlane,
    /// Workers are more minors behind the control plane than the skew policy lets them, before the first step.
    WorkerTooFarBehind,
    /// The build tags of workers and target have no order: when the control plane is there, Cluster API's validation
    /// refuses every plan.
    WorkerBuildTag,
    /// The plan would be longer than the 32 hops that a Cluster's status holds.
    TooManyHops,
    /// Workers have to catch up before the control plane's first hop into another minor, but some of them cannot be told
    /// to move to where it is (they are above it, or its version is not one that a Cluster can name), and the list has no
    /// higher entry of its minor for all of them. The minor of the control plane is the first of the missing ones.
    MissingStep,
    /// Minors without an entry that a Cluster can name.
    MissingMinors,
}

impl Obstacle {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Unparsable,
        Self::TargetNotStrict,
        Self::AnotherMajor,
        Self::OtherSpelling,
        Self::TargetLower,
        Self::UnorderedBuildTags,
        Self::WorkerAboveTarget,
        Self::WorkerAboveControlPlane,
        Self::WorkerTooFarBehind,
        Self::WorkerBuildTag,
        Self::TooManyHops,
        Self::MissingStep,
        Self::MissingMinors,
    ];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unparsable => "unparsable",
            Self::TargetNotStrict => "target-not-strict",
            Self::AnotherMajor => "another-major",
            Self::OtherSpelling => "other-spelling",
            Self::TargetLower => "target-lower",
            Self::UnorderedBuildTags => "unordered-build-tags",
            Self::WorkerAboveTarget => "worker-above-target",
            Self::WorkerAboveControlPlane => "worker-above-control-plane",
            Self::WorkerTooFarBehind => "worker-too-far-behind",
            Self::WorkerBuildTag => "worker-build-tag",
            Self::TooManyHops => "too-many-hops",
            Self::MissingStep => "missing-step",
            Self::MissingMinors => "missing-minors",
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
