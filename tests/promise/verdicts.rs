//! What the webhook says in its log: which rules denied, also where the API server passed on another webhook's message.

use std::{
    collections::HashMap,
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
};

use parking_lot::Mutex;
use serde::Deserialize;

use crate::sequence::Namespaces;

/// The denials of each sequence, in their order, as names of rules.
pub struct Verdicts {
    log: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    read: u64,
    /// By the namespace of a sequence.
    denied: HashMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct Line {
    namespace: String,
    allowed: bool,
    rules: String,
}

impl Verdicts {
    pub fn of(log: PathBuf) -> Self {
        Self { log, state: Mutex::default() }
    }

    /// The rules that denied something in the namespaces of a sequence so far, in their order.
    pub fn denied(&self, namespaces: &Namespaces) -> Vec<String> {
        let mut state = self.state.lock();
        state.read(&self.log);
        state.denied.get(namespaces.own()).cloned().unwrap_or_default()
    }
}

impl State {
    fn read(&mut self, log: &PathBuf) {
        let mut text = String::new();
        let Ok(mut file) = File::open(log) else { return };
        if file.seek(SeekFrom::Start(self.read)).is_err() || file.read_to_string(&mut text).is_err() {
            return;
        }
        // A line that is still being written is read the next time.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.read += whole as u64;
        for line in text[..whole].lines() {
            let Ok(line) = serde_json::from_str::<Line>(line) else { continue };
            if !line.allowed {
                let sequence = line.namespace.strip_suffix("-other").unwrap_or(&line.namespace).to_owned();
                self.denied.entry(sequence).or_default().extend(line.rules.split(',').map(ToOwned::to_owned));
            }
        }
    }
}
