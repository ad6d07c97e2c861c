//! Which Cluster API is installed, and who says so. Pure.

use std::cmp::Ordering;

use crate::{planner::Installed, version::KubernetesVersion};

/// Who says which Cluster API is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldBy {
    /// The command line.
    Flag,
    /// The operator's `CoreProvider`.
    Operator,
    /// clusterctl's inventory.
    Clusterctl,
    /// Nobody: the newest known release is assumed.
    Nobody,
}

impl ToldBy {
    /// Its name in logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Operator => "operator",
            Self::Clusterctl => "clusterctl",
            Self::Nobody => "default",
        }
    }
}

/// The Cluster API that is installed, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterApi {
    /// Its version, with a `v`.
    pub version: String,
    /// Who says so.
    pub told_by: ToldBy,
    /// What follows for plans.
    pub installed: Installed,
    /// Whether everyone who could say something was asked.
    pub settled: bool,
}

impl Default for ClusterApi {
    /// The newest known release, until somebody is asked.
    fn default() -> Self {
        let (major, minor) = Installed::NEWEST_KNOWN;
        let version = format!("v{major}.{minor}");
        Self { version, told_by: ToldBy::Nobody, installed: Installed::default(), settled: false }
    }
}

impl ClusterApi {
    /// The release of this version; `None` if the text is no version.
    #[must_use]
    pub fn of_version(text: &str, told_by: ToldBy) -> Option<Self> {
        let installed = Installed::of_version(text)?;
        let version = KubernetesVersion::with_default_v(text).into_owned();
        Some(Self { version, told_by, installed, settled: true })
    }

    /// What is installed, by the versions that the operator and clusterctl's inventory name.
    ///
    /// The operator goes first: it keeps an inventory too, by way of clusterctl, and only its own object says what it has
    /// carried out. Of several versions the lowest counts. Cluster API supports one core only, so the others are left over
    /// or on their way; what the oldest planner can carry out, the newer ones can, with few exceptions.
    #[must_use]
    pub fn told(operator: &[String], clusterctl: &[String]) -> Self {
        let lowest = |versions: &[String], told_by: ToldBy| {
            let parsed = versions.iter().filter_map(|text| {
                let version = KubernetesVersion::parse_strict(&KubernetesVersion::with_default_v(text)).ok()?;
                Some((version, text))
            });
            let lowest = parsed.reduce(|a, b| if b.0.cmp_precedence(&a.0) == Ordering::Less { b } else { a });
            lowest.and_then(|(_, text)| Self::of_version(text, told_by))
        };
        lowest(operator, ToldBy::Operator)
            .or_else(|| lowest(clusterctl, ToldBy::Clusterctl))
            .unwrap_or_else(|| Self { settled: true, ..Self::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::{ClusterApi, ToldBy};
    use crate::planner::Release;

    #[test]
    fn the_operator_goes_first_and_the_lowest_version_counts() {
        let cases: [(&[&str], &[&str], &str, ToldBy); 8] = [
            (&[], &[], "v1.14", ToldBy::Nobody),
            (&[], &["v1.13.2"], "v1.13.2", ToldBy::Clusterctl),
            (&["v1.13.4"], &["v1.12.0"], "v1.13.4", ToldBy::Operator),
            (&[], &["v1.13.0", "v1.9.12", "v1.13.0-rc.1"], "v1.9.12", ToldBy::Clusterctl),
            (&[], &["v1.13.0", "v1.13.0-rc.1"], "v1.13.0-rc.1", ToldBy::Clusterctl),
            (&["latest"], &["v1.12.5"], "v1.12.5", ToldBy::Clusterctl),
            (&["latest"], &["", "main"], "v1.14", ToldBy::Nobody),
            (&["1.13.4"], &[], "v1.13.4", ToldBy::Operator),
        ];
        for (operator, clusterctl, version, told_by) in cases {
            let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
            let told = ClusterApi::told(&texts(operator), &texts(clusterctl));
            assert_eq!((told.version.as_str(), told.told_by), (version, told_by), "{operator:?} {clusterctl:?}");
            assert!(told.settled);
        }
    }

    #[test]
    fn what_nobody_tells_is_the_newest_known_release() {
        let assumed = ClusterApi::told(&[], &[]);
        assert_eq!((assumed.installed.release, assumed.installed.unknown), (Some(Release::V1_13), None));
        let newest = ClusterApi::of_version(&format!("{}.0", assumed.version), ToldBy::Flag).expect("a version");
        assert_eq!(newest.installed, assumed.installed);
    }
}
