//! One port for several: each connection goes to the next of them, as a Service does it.

use std::{
    net::{Ipv4Addr, TcpListener, TcpStream},
    thread,
};

use anyhow::Result;

use super::gate::copy_both_ways;

/// Opens such a port in front of `ports`. Its threads end with the test.
pub fn over(ports: Vec<u16>) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for (inward, port) in listener.incoming().flatten().zip(ports.into_iter().cycle()) {
            thread::spawn(move || {
                // A replica that is gone refuses, and so does this port then.
                let Ok(outward) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return };
                if [&inward, &outward].into_iter().all(|stream| stream.set_nodelay(true).is_ok()) {
                    copy_both_ways(&inward, &outward);
                }
            });
        }
    });
    Ok(port)
}
