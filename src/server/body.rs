//! Reads request bodies within bounds: each in size and time, all together in memory.

use std::{sync::Arc, time::Duration};

use actix_web::{
    http::header::{self, HeaderMap},
    web::Payload,
};
use futures::StreamExt;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use super::refusal::{Reason, Refusal};

/// The largest review: two objects of 3 MiB, the API server's own limit for a request, and a mebibyte for the rest.
pub const LARGEST: usize = 7 << 20;

/// Memory is counted in steps of this many bytes.
const STEP: usize = 1 << 10;

/// Until this much of a body has come, its declared length is not believed.
const UNPROVEN: usize = 64 << 10;

/// How much is taken in at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests that are judged at once. Three API servers send at most some hundred each.
    pub requests: usize,
    /// Bytes of bodies in memory at once.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { requests: 256, bytes: 64 << 20 }
    }
}

/// Lets requests in as long as there is room, and refuses at once when there is none: whoever waits for room holds a
/// connection and the user's request.
#[derive(Debug)]
pub struct Gate {
    requests: Semaphore,
    steps: Arc<Semaphore>,
    limits: Limits,
}

/// A body, and the room that it takes.
#[derive(Debug, Default)]
pub struct Body {
    /// The bytes.
    pub bytes: Vec<u8>,
    room: Option<OwnedSemaphorePermit>,
}

impl Gate {
    /// A gate with these limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let steps = (limits.bytes / STEP).min(Semaphore::MAX_PERMITS);
        let requests = Semaphore::new(limits.requests.min(Semaphore::MAX_PERMITS));
        Self { requests, steps: Arc::new(Semaphore::new(steps)), limits }
    }

    /// Takes a place among the requests that are judged. Only for a request that is wholly here: those that come a byte at
    /// a time would take all places else.
    ///
    /// # Errors
    /// If there is none.
    pub fn place(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Refusal> {
        self.requests.try_acquire().map_err(|_| {
            let full =
                format!("capi-version-guard judges {} requests at once and no more; try again", self.limits.requests);
            Refusal::new(Reason::Full, &full)
        })
    }

    /// Reads a body until `deadline`.
    ///
    /// Room is taken for what has come, not for what is declared: a declaration costs its sender nothing.
    ///
    /// # Errors
    /// If it is too large, too slow, broken off, or if there is no room for it.
    pub async fn read(&self, mut payload: Payload, headers: &HeaderMap, deadline: Instant) -> Result<Body, Refusal> {
        let declared = declared_length(headers);
        if declared.is_some_and(|length| length > LARGEST) {
            return Err(too_large());
        }
        let mut body = Body::default();
        body.bytes.reserve(declared.unwrap_or_default().min(UNPROVEN));
        loop {
            let chunk = match timeout_at(deadline, payload.next()).await {
                Err(_) => return Err(too_slow()),
                Ok(None) => return Ok(body),
                Ok(Some(Err(error))) => {
                    return Err(Refusal::new(Reason::Unreadable, &format!("failed to read the request: {error}")));
                }
                Ok(Some(Ok(chunk))) => chunk,
            };
            let length = body.bytes.len() + chunk.len();
            if length > LARGEST {
                return Err(too_large());
            }
            self.make_room(&mut body, length)?;
            if length > UNPROVEN && length > body.bytes.capacity() {
                body.bytes.reserve_exact(declared.unwrap_or_default().saturating_sub(body.bytes.len()));
            }
            body.bytes.extend_from_slice(&chunk);
        }
    }

    fn make_room(&self, body: &mut Body, length: usize) -> Result<(), Refusal> {
        let held = body.room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = length.div_ceil(STEP).saturating_sub(held);
        if more == 0 {
            return Ok(());
        }
        let taken = u32::try_from(more).ok().and_then(|more| Arc::clone(&self.steps).try_acquire_many_owned(more).ok());
        let Some(taken) = taken else {
            let full =
                format!("capi-version-guard holds {} KiB of requests and no more; try again", self.limits.bytes / STEP);
            return Err(Refusal::new(Reason::Full, &full));
        };
        match &mut body.room {
            Some(room) => room.merge(taken),
            none => *none = Some(taken),
        }
        Ok(())
    }
}

/// Checks that the body says to be plain JSON. It is never unpacked: a small body could unpack to a huge one.
///
/// # Errors
/// If it says to be anything else.
pub fn check_media_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let refused = |what: &str, text: &[u8], way_out: &str| {
        let message =
            format!("failed to read the request: its {what} is {:?}; {way_out}", String::from_utf8_lossy(text));
        Err(Refusal::new(Reason::MediaType, &message))
    };
    for encoding in headers.get_all(header::CONTENT_ENCODING) {
        if !encoding.as_bytes().eq_ignore_ascii_case(b"identity") {
            return refused("Content-Encoding", encoding.as_bytes(), "send it as it is");
        }
    }
    if let Some(media_type) = headers.get(header::CONTENT_TYPE) {
        let essence = media_type.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        if !essence.eq_ignore_ascii_case(b"application/json") {
            return refused("Content-Type", media_type.as_bytes(), "send application/json");
        }
    }
    Ok(())
}

fn declared_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn too_large() -> Refusal {
    let message = "failed to read the request: it is larger than 7 MiB";
    Refusal::new(Reason::Size, message)
}

fn too_slow() -> Refusal {
    Refusal::new(Reason::Slow, "failed to read the request: it was not complete before its answer was due")
}

/// How long a client may take for the head of a request.
///
/// As long as a connection may be idle. The API server opens connections in a burst, and keeps those that it did not need
/// after all for 90 s without having sent a byte; to close one in that time can hit the next request, which is not
/// repeated. It takes nothing from anyone: an idle connection costs the same.
pub const HEAD_TIMEOUT: Duration = super::KEEP_ALIVE;
