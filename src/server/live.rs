//! Quorum reads of single objects, to confirm what the index says before a refusal rests on it.
//!
//! A GET without a resourceVersion goes to etcd and returns the newest committed state.

use std::time::Duration;

use kube::{Api, Client, Config};
use tokio::{runtime::Handle, time::Instant};

use crate::{
    fleet::watch::{Kind, Watched},
    model::{Cluster, ObjectKey, Running},
    text::chain,
};

/// Reads from the API server, on the runtime that owns its connections.
#[derive(Clone)]
pub struct Live {
    client: Client,
    runtime: Handle,
}

/// A read that gave no answer, so that nothing can be said.
#[derive(Debug, thiserror::Error)]
#[error("failed to read {kind} {key}: {reason}")]
pub struct LiveReadError {
    kind: &'static str,
    key: ObjectKey,
    reason: String,
}

impl Live {
    /// Makes the client. `runtime` must live as long as the program: the server's workers come and go, and a connection
    /// dies with the runtime that opened it.
    ///
    /// # Errors
    /// If the configuration makes no client.
    pub fn new(mut config: Config, runtime: Handle) -> Result<Self, kube::Error> {
        // The API server waits for us: a failed read is answered, not repeated for minutes.
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(2));
        Ok(Self::with_client(Client::try_from(config)?, runtime))
    }

    /// Reads through a client that exists already.
    #[must_use]
    pub fn with_client(client: Client, runtime: Handle) -> Self {
        Self { client, runtime }
    }

    /// Reads one object; `None` if it is not there.
    ///
    /// # Errors
    /// If the API server does not answer by `deadline`, refuses, or sends what does not decode.
    pub async fn read<T: Kind>(&self, key: &ObjectKey, deadline: Instant) -> Result<Option<T>, LiveReadError> {
        let failed = |reason: String| LiveReadError { kind: T::KIND, key: key.clone(), reason };
        // Both become parts of a path. The API server's schema lets nothing else through, but it is not asked to prove it.
        if !is_object_name(&key.namespace) || !is_object_name(&key.name) {
            return Ok(None);
        }
        let api: Api<Watched<T>> = Api::namespaced(self.client.clone(), &key.namespace);
        let name = key.name.to_string();
        let read = self.runtime.spawn(async move { api.get_opt(&name).await });
        match tokio::time::timeout_at(deadline, read).await {
            Err(_) => Err(failed("the API server did not answer in time".to_owned())),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Ok(Ok(Err(error))) => Err(failed(chain(&error))),
            Ok(Ok(Ok(None))) => Ok(None),
            Ok(Ok(Ok(Some(watched)))) => watched.object.map(Some).map_err(failed),
        }
    }

    /// Reads what runs of a Cluster.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn running(&self, _cluster: &Cluster, _deadline: Instant) -> Result<Running, LiveReadError> {
        Ok(Running::default())
    }
}

/// Whether the text is a DNS-1123 subdomain, which every namespace and every name of our kinds is.
fn is_object_name(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let ends = |end: Option<char>| end.is_some_and(|c| c.is_ascii_alphanumeric());
    let (first, last) = (text.chars().next(), text.chars().next_back());
    text.len() <= 253 && text.bytes().all(legal) && ends(first) && ends(last) && !text.contains("..")
}

#[cfg(test)]
mod tests {
    use super::is_object_name;

    #[test]
    fn nothing_that_could_change_a_path_is_a_name() {
        for name in ["a", "team-a", "a.b-c.d", "0", &"x".repeat(253)] {
            assert!(is_object_name(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "../a", "%2e%2e", "a#b", "a?b", "A", "a b", "-a", "a-", "a..b", "ä"] {
            assert!(!is_object_name(name), "{name}");
        }
        assert!(!is_object_name(&"x".repeat(254)));
    }
}
