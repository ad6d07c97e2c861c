//! The Cluster API that is installed, as far as plans depend on it.

use super::Release;
use crate::version::KubernetesVersion;

/// What is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The planner; `None` where there is none yet: before 1.12 nothing is planned, and classes have no list.
    pub release: Option<Release>,
    /// Major and minor of a release newer than those known: the newest known planner then stands in for its own.
    pub unknown: Option<(u64, u64)>,
    /// Whether Cluster API's feature gate `RuntimeSDK` is on.
    pub runtime_sdk: bool,
}

impl Default for Installed {
    /// The newest known release, with the `RuntimeSDK` gate on.
    fn default() -> Self {
        Self { release: Some(Release::V1_13), unknown: None, runtime_sdk: true }
    }
}

impl Installed {
    /// The newest minor whose planner is known to be emulated exactly (tests/fidelity).
    pub const NEWEST_KNOWN: (u64, u64) = (1, 14);

    /// What a release of Cluster API plans with: `v1.13.2`, with or without the `v`; `None` if the text is no version.
    #[must_use]
    pub fn of_version(text: &str) -> Option<Self> {
        let version = KubernetesVersion::parse_strict(&KubernetesVersion::with_default_v(text)).ok()?;
        let minor = (version.major(), version.minor());
        let release = match minor {
            (0, _) | (1, 0..=11) => None,
            (1, 12) if version.patch() < 4 => Some(Release::V1_12_0),
            (1, 12) => Some(Release::V1_12_4),
            _ => Some(Release::V1_13),
        };
        Some(Self { release, unknown: Some(minor).filter(|minor| *minor > Self::NEWEST_KNOWN), ..Self::default() })
    }
}
