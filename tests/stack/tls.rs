//! TLS with the certificate of [`super::certificates`], for servers and proxies of the tests.

use std::{
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    thread,
};

use anyhow::{Context, Result};
use openssl::ssl::{SslAcceptor, SslConnector, SslFiletype, SslMethod, SslStream, SslVerifyMode};

/// Listens on a free port of loopback, and has each connection served by a thread of its own. The threads end with the test.
pub fn listen(directory: &Path, serve: impl Fn(SslStream<TcpStream>) + Send + Sync + 'static) -> Result<u16> {
    let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server())?;
    acceptor.set_private_key_file(directory.join("tls.key"), SslFiletype::PEM)?;
    acceptor.set_certificate_chain_file(directory.join("tls.crt"))?;
    let acceptor = acceptor.build();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let serve = std::sync::Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (acceptor, serve) = (acceptor.clone(), std::sync::Arc::clone(&serve));
            thread::spawn(move || {
                // Whoever breaks off the handshake is not served.
                if stream.set_nodelay(true).is_ok()
                    && let Ok(stream) = acceptor.accept(stream)
                {
                    serve(stream);
                }
            });
        }
    });
    Ok(port)
}

/// Connects to a port of loopback. Whose certificate it shows does not matter here.
pub fn connect(port: u16) -> Result<SslStream<TcpStream>> {
    let mut connector = SslConnector::builder(SslMethod::tls_client())?;
    connector.set_verify(SslVerifyMode::NONE);
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    connector.build().connect("localhost", stream).ok().context("failed to agree on TLS")
}
