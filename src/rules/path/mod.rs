//! What the path rules share: whether the installed Cluster API gets from what runs to a target, and how to say why not.
//!
//! Not a rule itself. The answer is the planner's ([`Upgrade`]); `explain` puts it into the words of a class's author: which
//! entry is missing between what, and which listed versions can be reached instead.

mod explain;

use std::{cmp::Ordering, collections::BTreeSet};

use crate::{
    fleet::ClassEntry,
    model::{ClusterClass, Provider},
    planner::{DeadEnd, Installed, Known, Release, Running, Source, Trap, Upgrade, plan},
    version::KubernetesVersion,
};

pub(super) use self::explain::explain;

/// Where the plans for the Clusters of a class come from, its entries parsed once.
#[derive(Clone, Debug)]
pub(super) enum Plans<'a> {
    /// Neither list nor extension.
    OneMinor,
    /// The list.
    List(Vec<Known<'a>>),
    /// The extension of this name, whatever the list holds.
    Extension(&'a str),
}

impl<'a> Plans<'a> {
    pub(super) fn of_entry(class: &'a ClassEntry) -> Self {
        Self::of(class.versions.iter().map(|entry| &**entry), class.extension.as_deref())
    }

    pub(super) fn of_class(class: &'a ClusterClass) -> Self {
        Self::of(class.versions().iter().map(String::as_str), class.extension())
    }

    fn of(entries: impl Iterator<Item = &'a str>, extension: Option<&'a str>) -> Self {
        if let Some(extension) = extension {
            return Self::Extension(extension);
        }
        let list: Vec<_> = entries.map(Known::new).collect();
        if list.is_empty() { Self::OneMinor } else { Self::List(list) }
    }

    pub(super) fn by_extension(&self) -> bool {
        matches!(self, Self::Extension(_))
    }

    fn list(&self) -> &[Known<'a>] {
        match self {
            Self::List(list) => list,
            Self::OneMinor | Self::Extension(_) => &[],
        }
    }
}

/// What the installed Cluster API is asked to do for one Cluster or for many in the same state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path<'a> {
    pub(super) plans: &'a Plans<'a>,
    pub(super) installed: Installed,
    pub(super) provider: Provider,
    pub(super) target: &'a str,
}

/// Whether there is a way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Every order of events ends at the target.
    Leads,
    /// Some order of events ends elsewhere.
    Ends(Trap),
    /// An extension plans, but the `RuntimeSDK` feature is off, so Cluster API refuses to ask it.
    ExtensionOff,
    /// An extension plans, and only it knows.
    Unknown,
    /// There are more orders of events than are followed.
    TooLong,
}

impl<'a> Path<'a> {
    /// The upgrade that is simulated; `None` if an extension plans or the release plans nothing.
    fn upgrade(&self, release: Release) -> Option<Upgrade<'_>> {
        let source = match self.plans {
            Plans::OneMinor => Source::OneMinor,
            Plans::List(list) => Source::List(list),
            Plans::Extension(_) => return None,
        };
        Some(Upgrade { release, source, target: self.target, provider: self.provider })
    }

    /// Whether there is a way from `from`.
    pub(super) fn way(&self, from: &Running) -> Way {
        let there = from.control_plane == self.target && from.workers.iter().all(|worker| worker == self.target);
        let Some(release) = self.installed.release.filter(|_| !there) else { return Way::Leads };
        match self.upgrade(release) {
            Some(upgrade) => match upgrade.follow(from) {
                Ok(()) => Way::Leads,
                Err(Trap { why: DeadEnd::TooLong, .. }) => Way::TooLong,
                Err(trap) => Way::Ends(trap),
            },
            // Whatever an extension says, no provider leaves its major.
            None if self.crosses_majors(from) => {
                Way::Ends(Trap { at: from.clone(), why: DeadEnd::AnotherMajor { step: self.target.to_owned() } })
            }
            None if !self.installed.runtime_sdk => Way::ExtensionOff,
            None => Way::Unknown,
        }
    }

    fn crosses_majors(&self, from: &Running) -> bool {
        let major = |text| KubernetesVersion::parse_lenient(text).ok().map(|version| version.major());
        major(self.target).zip(major(&from.control_plane)).is_some_and(|(to, from)| to != from)
    }

    /// The states that come directly after `from`; none where that cannot be told.
    pub(super) fn next(&self, from: &Running) -> BTreeSet<Running> {
        let upgrade = self.installed.release.and_then(|release| self.upgrade(release));
        upgrade.and_then(|upgrade| upgrade.next(from).ok()).unwrap_or_default()
    }

    /// The hops of the control plane from `from`; none where that cannot be told.
    pub(super) fn hops(&self, from: &Running) -> Vec<String> {
        let Some(upgrade) = self.installed.release.and_then(|release| self.upgrade(release)) else { return Vec::new() };
        let (target, control_plane) = (Known::new(self.target), Known::new(&from.control_plane));
        let planned = plan(upgrade.release, upgrade.source, &target, &control_plane, None);
        planned.map(|plan| plan.control_plane.into_iter().map(ToOwned::to_owned).collect()).unwrap_or_default()
    }

    /// The listed versions next to the target, below and above, that can be reached from `from`.
    pub(super) fn alternatives(&self, from: &Running) -> Vec<&'a str> {
        let (Ok(wanted), Ok(current)) =
            (KubernetesVersion::parse_lenient(self.target), KubernetesVersion::parse_lenient(&from.control_plane))
        else {
            return Vec::new();
        };
        let (mut below, mut above): (Vec<&Known<'a>>, Vec<&Known<'a>>) = (Vec::new(), Vec::new());
        for entry in self.plans.list() {
            let Ok(listed) = KubernetesVersion::parse_strict(entry.text) else { continue };
            if entry.text == self.target || listed.cmp_precedence(&current).is_le() {
                continue;
            }
            if listed.cmp_precedence(&wanted).is_lt() { below.push(entry) } else { above.push(entry) }
        }
        let by_precedence = |a: &&Known<'a>, b: &&Known<'a>| match (&a.version, &b.version) {
            (Some(a), Some(b)) => a.cmp_precedence(b),
            _ => Ordering::Equal,
        };
        below.sort_by(|a, b| by_precedence(b, a));
        above.sort_by(by_precedence);
        let reached = |entries: Vec<&Known<'a>>| {
            let leads = |entry: &&Known<'a>| Path { target: entry.text, ..*self }.way(from) == Way::Leads;
            entries.into_iter().find(leads).map(|entry| entry.text)
        };
        [reached(below), reached(above)].into_iter().flatten().collect()
    }
}
