//! A port that leads to another one once it is opened; until then connections are taken and nothing comes back.

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
    open: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    /// A closed gate in front of `port`.
    pub fn closed(port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let gate = Self { port: listener.local_addr()?.port(), open: Arc::default() };
        let open = Arc::clone(&gate.open);
        // These threads end with the test; they hold nothing but sockets.
        thread::spawn(move || {
            for inward in listener.incoming().flatten() {
                let open = Arc::clone(&open);
                thread::spawn(move || pass(&inward, port, &open));
            }
        });
        Ok(gate)
    }

    /// Lets everything through, what waits included.
    pub fn open(&self) {
        *self.open.0.lock() = true;
        self.open.1.notify_all();
    }
}

fn pass(inward: &TcpStream, port: u16, open: &(Mutex<bool>, Condvar)) -> io::Result<()> {
    let mut is_open = open.0.lock();
    while !*is_open {
        open.1.wait(&mut is_open);
    }
    drop(is_open);
    let outward = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    thread::scope(|scope| {
        scope.spawn(|| copy(inward, &outward));
        copy(&outward, inward);
    });
    Ok(())
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    // Either side may break off; the other one is told in both cases.
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
