//! Kubernetes versions as Cluster API reads and compares them.
//!
//! Cluster API (CAPI) has two parsers and three comparisons, and which one decides matters: a `ClusterClass` accepts
//! list entries that no Cluster can ever select, and two build tags may have no order at all. This room reproduces
//! them on top of the `semver` crate, whose grammar is the strict one; only build tags are ordered here, because
//! `semver::Version`'s own order of them (textual, total) is not CAPI's.
//!
//! Sources: Cluster API v1.14 `util/version/version.go` (comparison), `core/webhooks/admission/cluster.go` (strict
//! rule), blang/semver v4 `ParseTolerant` (lenient rule).

use std::{borrow::Cow, cmp::Ordering, fmt};

use semver::Version;

/// A Kubernetes version: semver 2.0 precedence, plus CAPI's partial order of build tags.
///
/// Deliberately neither `Ord` nor `PartialEq`: there are several comparisons, none of them total with build tags, and
/// membership in a class's list is equality of *bytes*, which no parsed form can answer.
#[derive(Clone, Debug)]
pub struct KubernetesVersion(Version);

/// Why a text is no Kubernetes version; its [`Display`](fmt::Display) form fits behind "… is not a version: ".
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ParseVersionError(#[from] Reason);

#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error("it does not begin with \"v\"")]
    NoV,
    #[error("a version without a patch number has no pre-release or build tag")]
    ShortWithTag,
    #[error("a number of the pre-release is larger than 64 bits hold")]
    PreReleaseOverflow,
    #[error(transparent)]
    Semver(semver::Error),
}

impl KubernetesVersion {
    /// Parses a Cluster's version: a leading `v`, then strict semver (CAPI v1.14's rule; up to v1.13 a regular
    /// expression let some suffixes through that failed later).
    ///
    /// # Errors
    /// Everything else, such as `1.30.0`, `v1.30`, `v1.30.0-rc.01` or surrounding blanks.
    pub fn parse_strict(text: &str) -> Result<Self, ParseVersionError> {
        parse_semver(text.strip_prefix('v').ok_or(Reason::NoV)?)
    }

    /// Parses an entry of `spec.kubernetesVersions` as CAPI does: white space around it, one leading `v` or none,
    /// leading zeros, and a missing minor or patch number are all accepted.
    ///
    /// # Errors
    /// What is no version even so: a second `v`, an empty or non-numeric part, a short version with a tag.
    pub fn parse_lenient(text: &str) -> Result<Self, ParseVersionError> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        // Nearly all are strict already, and then nothing has to be put together: a list is parsed for every judgement.
        if let Ok(version) = parse_semver(text) {
            return Ok(version);
        }
        let mut parts: Vec<Cow<'_, str>> = text.splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 && parts.last().is_some_and(|part| part.contains(['+', '-'])) {
            return Err(Reason::ShortWithTag.into());
        }
        parts.resize(3, Cow::Borrowed("0"));
        parse_semver(&parts.join("."))
    }

    /// The version that CAPI's defaulting webhook makes of a Cluster's: it puts a `v` before whatever has none.
    #[must_use]
    pub fn with_default_v(text: &str) -> Cow<'_, str> {
        if text.starts_with('v') { Cow::Borrowed(text) } else { Cow::Owned(format!("v{text}")) }
    }

    /// The major version number.
    #[must_use]
    pub fn major(&self) -> u64 {
        self.0.major
    }

    /// The minor version number.
    #[must_use]
    pub fn minor(&self) -> u64 {
        self.0.minor
    }

    /// The patch version number.
    #[must_use]
    pub fn patch(&self) -> u64 {
        self.0.patch
    }

    /// Whether it is a pre-release.
    #[must_use]
    pub fn is_pre_release(&self) -> bool {
        !self.0.pre.is_empty()
    }

    /// Compares by semver precedence: a pre-release is lower than its release, build tags count for nothing.
    #[must_use]
    pub fn cmp_precedence(&self, other: &Self) -> Ordering {
        self.0.cmp_precedence(&other.0)
    }

    /// Compares major, minor and patch only (CAPI's `WithoutPreReleases`).
    #[must_use]
    pub fn cmp_release(&self, other: &Self) -> Ordering {
        let release = |v: &Version| (v.major, v.minor, v.patch);
        release(&self.0).cmp(&release(&other.0))
    }

    /// Compares by precedence, then by build tag (CAPI's `WithBuildTags`).
    ///
    /// `None` where CAPI says "different, order unknown": two unequal textual parts, such as `+k3s1` and `+k3s2`.
    /// CAPI's callers treat that as neither lower nor equal. The relation is **not transitive** (`+a < +a.1`, but
    /// both are unordered to `+b`), so never sort by it.
    #[must_use]
    pub fn cmp_with_build(&self, other: &Self) -> Option<Ordering> {
        match self.cmp_precedence(other) {
            Ordering::Equal => cmp_build(self.0.build.as_str(), other.0.build.as_str()),
            unequal => Some(unequal),
        }
    }

    /// Whether both have the same canonical text, build tag included (`+001` and `+1` differ although they compare
    /// equal).
    #[must_use]
    pub fn same_text(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

/// The canonical text with a leading `v`, which is how CAPI writes versions that it computes.
impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

fn parse_semver(text: &str) -> Result<KubernetesVersion, ParseVersionError> {
    let version = Version::parse(text).map_err(Reason::Semver)?;
    // The semver crate compares numbers of any length; Cluster API's parser refuses what 64 bits cannot hold.
    let numeric = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    if version.pre.split('.').filter(|part| !part.is_empty()).filter(numeric).any(|part| part.parse::<u64>().is_err()) {
        return Err(Reason::PreReleaseOverflow.into());
    }
    Ok(KubernetesVersion(version))
}

/// Strips the leading zeros of one dot part, keeping one where no digit would be left in front.
fn without_leading_zeros(part: &str) -> Cow<'_, str> {
    if part.len() < 2 {
        return Cow::Borrowed(part);
    }
    let stripped = part.trim_start_matches('0');
    if stripped.starts_with(|c: char| c.is_ascii_digit()) {
        Cow::Borrowed(stripped)
    } else if part.starts_with(['0', '-', '+']) {
        Cow::Owned(format!("0{stripped}"))
    } else {
        // No version with a zero in front either; the error shall point to what was written.
        Cow::Borrowed(part)
    }
}

fn cmp_build(a: &str, b: &str) -> Option<Ordering> {
    // An empty tag has no parts, which makes it a prefix of (so lower than) every other.
    let mut a = a.split('.').filter(|part| !part.is_empty());
    let mut b = b.split('.').filter(|part| !part.is_empty());
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Some(Ordering::Equal),
            (None, Some(_)) => return Some(Ordering::Less),
            (Some(_), None) => return Some(Ordering::Greater),
            (Some(a), Some(b)) => match (build_number(a), build_number(b)) {
                (Some(a), Some(b)) => a.cmp(&b),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) if a == b => Ordering::Equal,
                (None, None) => return None,
            },
        };
        if order != Ordering::Equal {
            return Some(order);
        }
    }
}

/// The number of an all-digits build part, capped at 64 bits as CAPI caps it.
fn build_number(part: &str) -> Option<u64> {
    part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().unwrap_or(u64::MAX))
}
