//! A port that leads to another one while it is open. While it is closed, connections are taken and nothing comes back.

use std::{
    io,
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use anyhow::Result;
use parking_lot::{Condvar, Mutex};

/// Such a port.
pub struct Gate {
    /// Its number.
    pub port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Default)]
struct State {
    open: bool,
    /// What passes, to be cut.
    passing: Vec<TcpStream>,
}

impl Gate {
    /// A closed gate in front of `port`.
    pub fn closed(port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let gate = Self { port: listener.local_addr()?.port(), shared: Arc::default() };
        let shared = Arc::clone(&gate.shared);
        // These threads end with the test; they hold nothing but sockets.
        thread::spawn(move || {
            for inward in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || pass(&inward, port, &shared));
            }
        });
        Ok(gate)
    }

    /// Lets everything through, what waits included.
    pub fn open(&self) {
        self.shared.state.lock().open = true;
        self.shared.opened.notify_all();
    }

    /// Cuts what passes, and lets nothing through any more.
    pub fn close(&self) {
        let mut state = self.shared.state.lock();
        state.open = false;
        for stream in state.passing.drain(..) {
            // It may have been closed before.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pass(inward: &TcpStream, port: u16, shared: &Shared) -> io::Result<()> {
    let mut state = shared.state.lock();
    while !state.open {
        shared.opened.wait(&mut state);
    }
    let outward = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    state.passing.extend([inward.try_clone()?, outward.try_clone()?]);
    drop(state);
    copy_both_ways(inward, &outward);
    Ok(())
}

/// Carries bytes between two connections until both have ended.
pub fn copy_both_ways(one: &TcpStream, other: &TcpStream) {
    thread::scope(|scope| {
        scope.spawn(|| copy(one, other));
        copy(other, one);
    });
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    // Either side may break off; the other one is told in both cases.
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
