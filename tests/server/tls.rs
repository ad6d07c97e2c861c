//! Certificates and protocols.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use capi_version_guard::server::{
    Certificate,
    self_made::{self, SelfMade},
    tls::{CertificateFiles, Reloader},
};
use openssl::{
    pkey::PKey,
    rsa::Rsa,
    ssl::{Ssl, SslVersion},
    symm::Cipher,
};

use crate::{
    client::{Connection, handshake, tcp, trusting},
    running::{CLUSTERS, Running, cluster, creation},
};

fn make() -> SelfMade {
    self_made::make("127.0.0.1".parse().unwrap()).unwrap()
}

/// A Secret volume as kubelet lays it out: the files are links into `..data`, itself a link that is swapped.
struct SecretVolume {
    directory: tempfile::TempDir,
    generation: u32,
}

impl SecretVolume {
    fn new(certificate: &[u8], private_key: &[u8]) -> Self {
        let mut volume = Self { directory: tempfile::tempdir().unwrap(), generation: 0 };
        volume.write(certificate, private_key);
        for file in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(file), volume.directory.path().join(file)).unwrap();
        }
        volume
    }

    fn write(&mut self, certificate: &[u8], private_key: &[u8]) {
        let root = self.directory.path();
        let old = root.join(format!("..{}", self.generation));
        self.generation += 1;
        let name = format!("..{}", self.generation);
        fs::create_dir(root.join(&name)).unwrap();
        fs::write(root.join(&name).join("tls.crt"), certificate).unwrap();
        fs::write(root.join(&name).join("tls.key"), private_key).unwrap();
        symlink(&name, root.join("..data_tmp")).unwrap();
        fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
        if self.generation > 1 {
            fs::remove_dir_all(old).unwrap();
        }
    }

    fn files(&self) -> CertificateFiles {
        let path = |file| self.directory.path().join(file);
        CertificateFiles { certificate: path("tls.crt"), private_key: path("tls.key") }
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_renewed_certificate_is_served_to_new_connections_and_a_bad_one_never() {
    const FAILURES: &str = "capi_version_guard_certificate_reload_failures_total";
    let (first, second, third) = (make(), make(), make());
    let mut volume = SecretVolume::new(&first.pair.certificate, &first.pair.private_key);
    let server = Running::with(|setup| setup.certificate = Certificate::Files(volume.files()));
    let address = server.addresses.webhook;
    let is_served = |made: &SelfMade| Connection::try_open(address, &made.ca).is_ok();
    let review = creation("u1", &cluster("b", "v1.31.2"));
    let mut old = Connection::open(address, &first.ca);
    assert_eq!(old.post(CLUSTERS, review.as_bytes()).status, 200);
    assert!(!is_served(&second), "the test can tell them apart");

    volume.write(&second.pair.certificate, &second.pair.private_key);
    until("the second is served", || is_served(&second));
    assert!(!is_served(&first));
    assert_eq!(old.post(CLUSTERS, review.as_bytes()).status, 200, "connections of before go on");
    assert_eq!(Connection::open(address, &second.ca).post(CLUSTERS, review.as_bytes()).status, 200);
    assert_eq!(server.metric(FAILURES), "0");

    let bad: [(&[u8], &[u8]); 4] = [
        (&third.pair.certificate, &second.pair.private_key),
        (b"no certificate", &third.pair.private_key),
        (&third.pair.certificate, b"no key"),
        (b"", b""),
    ];
    for (certificate, private_key) in bad {
        let before: u64 = server.metric(FAILURES).parse().unwrap();
        volume.write(certificate, private_key);
        until("the failure is counted", || server.metric(FAILURES).parse::<u64>().unwrap() > before + 1);
        assert!(is_served(&second), "the last good one is kept");
        assert_eq!(server.health("/readyz").status, 200);
    }

    volume.write(&third.pair.certificate, &third.pair.private_key);
    until("the third is served", || is_served(&third));
    let failures = server.metric(FAILURES);
    thread::sleep(Duration::from_millis(100));
    assert_eq!(server.metric(FAILURES), failures, "all is well again");
}

#[test]
fn a_swapped_certificate_still_speaks_http_1_1_only() {
    let (first, second) = (make(), make());
    let mut volume = SecretVolume::new(&first.pair.certificate, &first.pair.private_key);
    let server = Running::with(|setup| setup.certificate = Certificate::Files(volume.files()));
    let address = server.addresses.webhook;
    let chosen = |ca: &[u8], offered: &[u8]| {
        let mut client = trusting(ca);
        client.set_alpn_protos(offered).unwrap();
        let stream = handshake(&client.build(), address).unwrap();
        stream.ssl().selected_alpn_protocol().map(<[u8]>::to_vec)
    };
    let check = |ca: &[u8]| {
        assert_eq!(chosen(ca, b"\x08http/1.1"), Some(b"http/1.1".to_vec()));
        assert_eq!(chosen(ca, b"\x02h2\x08http/1.1"), Some(b"http/1.1".to_vec()));
        assert_eq!(chosen(ca, b"\x02h2"), None);
    };
    check(&first.ca);
    volume.write(&second.pair.certificate, &second.pair.private_key);
    until("the second is served", || Connection::try_open(address, &second.ca).is_ok());
    check(&second.ca);
}

#[test]
fn tls_1_2_and_1_3_are_spoken_and_nothing_older() {
    let server = Running::start();
    let spoken = |version: SslVersion| {
        let mut client = trusting(&server.ca);
        // Else this client refuses the old ones by itself.
        client.set_cipher_list("ALL:@SECLEVEL=0").unwrap();
        client.set_min_proto_version(Some(version)).unwrap();
        client.set_max_proto_version(Some(version)).unwrap();
        match handshake(&client.build(), server.addresses.webhook) {
            Ok(stream) => stream.ssl().version_str().to_owned(),
            Err(error) => format!("refused: {error}"),
        }
    };
    assert_eq!(spoken(SslVersion::TLS1_2), "TLSv1.2");
    assert_eq!(spoken(SslVersion::TLS1_3), "TLSv1.3");
    for version in [SslVersion::TLS1, SslVersion::TLS1_1] {
        let text = spoken(version);
        assert!(text.starts_with("refused: ") && text.contains("alert protocol version"), "{text}");
    }
}

#[test]
fn a_connection_with_a_server_name_gets_the_certificate_too() {
    // All others here have none: the address is an IP.
    let server = Running::start();
    let mut ssl = Ssl::new(&trusting(&server.ca).build()).unwrap();
    ssl.set_hostname("localhost").unwrap();
    ssl.param_mut().set_host("localhost").unwrap();
    ssl.connect(tcp(server.addresses.webhook).unwrap()).unwrap();
}

#[test]
fn plain_http_gets_no_answer_and_harms_nobody() {
    let server = Running::start();
    let mut plain = Connection::plain(server.addresses.webhook);
    plain.send(b"POST /validate/clusters HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert!(plain.try_response().is_err());
    assert_eq!(server.post(CLUSTERS, creation("u1", &cluster("b", "v1.31.2"))).status, 200);
}

/// What a file holds, if there is one.
type Bytes<'a> = Option<&'a [u8]>;

#[test]
fn files_that_are_no_certificate_and_key_are_named() {
    let (one, other) = (make(), make());
    let encrypted = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let encrypted = encrypted.private_key_to_pem_pkcs8_passphrase(Cipher::aes_256_cbc(), b"secret").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let (certificate, private_key) = (path("tls.crt"), path("tls.key"));
    let place = |text: &str| text.replace("DIR", &directory.path().display().to_string());
    let cases: [(&str, Bytes<'_>, Bytes<'_>, &str); 6] = [
        ("no files", None, None, "failed to read DIR/tls.crt: No such file or directory (os error 2)"),
        (
            "no key file",
            Some(&one.pair.certificate),
            None,
            "failed to read DIR/tls.key: No such file or directory (os error 2)",
        ),
        (
            "an empty certificate",
            Some(b""),
            Some(&one.pair.private_key),
            "failed to find a certificate in DIR/tls.crt: it has no PEM block CERTIFICATE",
        ),
        (
            "the key of another",
            Some(&one.pair.certificate),
            Some(&other.pair.private_key),
            "failed to use DIR/tls.crt with DIR/tls.key: the key is not that of the certificate",
        ),
        ("no key", Some(&one.pair.certificate), Some(b"key"), "failed to parse the private key in DIR/tls.key: "),
        (
            "a key with a passphrase",
            Some(&one.pair.certificate),
            Some(&encrypted),
            "failed to parse the private key in DIR/tls.key: ",
        ),
    ];
    for (name, certificate_bytes, private_key_bytes, expected) in cases {
        for (file, bytes) in [(&certificate, certificate_bytes), (&private_key, private_key_bytes)] {
            let _ = fs::remove_file(file);
            if let Some(bytes) = bytes {
                fs::write(file, bytes).unwrap();
            }
        }
        let files = CertificateFiles { certificate: certificate.clone(), private_key: private_key.clone() };
        let error = Reloader::start(files).err().unwrap_or_else(|| panic!("{name}: no error"));
        let error = format!("{:#}", anyhow::Error::new(error)); // as the program prints it
        // The rest is OpenSSL's.
        if expected.ends_with(": ") {
            assert!(error.starts_with(&place(expected)), "{name}: {error}");
        } else {
            assert_eq!(error, place(expected), "{name}");
        }
        assert!(!error.contains("secret") && !error.contains("PRIVATE"), "{name}: {error}");
    }
}
