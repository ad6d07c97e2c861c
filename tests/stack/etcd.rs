//! etcd itself, past the API servers, by its HTTP gateway: what was committed, and in which order.

use std::io::BufRead;

use anyhow::{Context, Result, bail};
use openssl::base64::{decode_block, encode_block};
use serde_json::{Value, json};

use super::http;

/// A running etcd.
#[derive(Clone, Copy)]
pub struct Etcd {
    pub port: u16,
}

/// One write of one key.
#[derive(Debug)]
pub struct Event {
    /// The revision, by which all writes of all keys are ordered.
    pub revision: u64,
    pub key: String,
    /// The bytes as they are stored; `None` for a deletion.
    pub value: Option<Vec<u8>>,
}

impl Etcd {
    /// The newest revision.
    pub fn revision(self) -> Result<u64> {
        let range = json!({"key": encode_block(b"/"), "count_only": true});
        let answer: Value = serde_json::from_reader(http::post_stream(self.port, "/v3/kv/range", &range.to_string())?)?;
        number(&answer["header"]["revision"])
    }

    /// All writes below `prefix`, which ends in a slash, from revision `first` on.
    pub fn events(self, prefix: &str, first: u64) -> Result<Vec<Event>> {
        let directory = prefix.strip_suffix('/').context("a prefix that does not end in a slash")?;
        // A watch never ends by itself. So a key is written that its range holds too, and that nobody else looks at: '0'
        // comes behind '/'.
        let (mark, end) = (format!("{directory}0"), format!("{directory}1"));
        let put = json!({"key": encode_block(mark.as_bytes()), "value": ""});
        let answer: Value = serde_json::from_reader(http::post_stream(self.port, "/v3/kv/put", &put.to_string())?)?;
        let last = number(&answer["header"]["revision"])?;
        let watch = json!({"create_request": {
            "key": encode_block(prefix.as_bytes()), "range_end": encode_block(end.as_bytes()), "start_revision": first,
        }});
        let mut events = Vec::new();
        for line in http::post_stream(self.port, "/v3/watch", &watch.to_string())?.lines() {
            let line: Value = serde_json::from_str(&line?)?;
            let result = &line["result"];
            if !result.is_object() || result["canceled"] == true {
                bail!("etcd does not tell what was written since revision {first}: {line}");
            }
            for event in result["events"].as_array().into_iter().flatten() {
                let kv = &event["kv"];
                let event = Event {
                    revision: number(&kv["mod_revision"])?,
                    key: String::from_utf8(bytes(&kv["key"])?)?,
                    // What stands for a zero value is left out.
                    value: if event["type"] == "DELETE" { None } else { Some(bytes(&kv["value"])?) },
                };
                if event.revision == last {
                    return Ok(events);
                }
                if event.key != mark {
                    events.push(event);
                }
            }
        }
        bail!("etcd ended the watch")
    }
}

fn number(value: &Value) -> Result<u64> {
    value.as_str().and_then(|text| text.parse().ok()).with_context(|| format!("{value} is no revision"))
}

fn bytes(value: &Value) -> Result<Vec<u8>> {
    Ok(decode_block(value.as_str().unwrap_or_default())?)
}
