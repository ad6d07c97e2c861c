//! Stand-in.

use std::{fs, io, path::Path};

use super::{Event, Index};
use crate::model::{Cluster, ClusterClass};

/// Why.
#[derive(Debug, thiserror::Error)]
pub enum LoadManifestsError {
    /// Read.
    #[error("failed to read the manifests")]
    Read(#[from] io::Error),
    /// Decode.
    #[error("failed to decode the manifests")]
    Decode(#[from] serde_json::Error),
}

/// Loads JSON files.
///
/// # Errors
/// If they cannot be read.
pub fn load(directory: &Path) -> Result<Index, LoadManifestsError> {
    #[derive(serde::Deserialize)]
    struct Kind {
        kind: String,
    }
    let mut index = Index::default();
    for entry in fs::read_dir(directory)? {
        let text = fs::read(entry?.path())?;
        match serde_json::from_slice::<Kind>(&text)?.kind.as_str() {
            "Cluster" => index.clusters.handle(Event::Applied(serde_json::from_slice::<Cluster>(&text)?)),
            "ClusterClass" => index.classes.handle(Event::Applied(serde_json::from_slice::<ClusterClass>(&text)?)),
            _ => {}
        }
    }
    index.clusters.handle(Event::Completed);
    index.classes.handle(Event::Completed);
    Ok(index)
}
