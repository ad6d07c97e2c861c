//! The two servers that are compared: ours, and one with the same settings that judges nothing.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{Arc, mpsc},
    time::Duration,
};

use actix_web::{App, HttpResponse, HttpServer, rt, web};
use capi_version_guard::{
    config::Config,
    fleet::{Event, Fleet, Index},
    model::{Cluster, ClusterClass},
    server::{self, Addresses, Certificate, Setup, body::Limits, shutdown},
};
use openssl::ssl::{SslAcceptor, SslFiletype, SslMethod};
use serde_json::json;

use crate::client::Server;

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// 40 versions, one per minor.
pub fn versions() -> Vec<String> {
    (30..70).map(|minor| format!("v1.{minor}.0")).collect()
}

/// The index of a fleet of `clusters` Clusters, all of class team-000/class-0, over 40 versions and 100 namespaces.
pub fn index(clusters: usize) -> Index {
    let mut index = Index::default();
    let versions = versions();
    let class: ClusterClass = serde_json::from_value(json!({
        "metadata": {"namespace": "team-000", "name": "class-0"}, "spec": {"kubernetesVersions": versions}
    }))
    .unwrap();
    index.handle_class(Event::Restarted);
    index.handle_class(Event::Listed(class));
    index.handle_class(Event::Completed);
    index.handle_cluster(Event::Restarted);
    for n in 0..clusters {
        let cluster: Cluster = serde_json::from_value(json!({
            "metadata": {"namespace": format!("team-{:03}", n % 100), "name": format!("cluster-{n:022}")},
            "spec": {"topology": {"classRef": {"name": "class-0", "namespace": "team-000"},
                                  "version": versions[n % versions.len()]}}
        }))
        .unwrap();
        index.handle_cluster(Event::Listed(cluster));
    }
    index.handle_cluster(Event::Completed);
    index
}

/// Serves our webhook for a fleet of so many Clusters, in threads that live as long as the process.
pub fn serve_ours(clusters: usize) -> Server {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        rt::System::new().block_on(async move {
            let bound = server::start(Setup {
                fleet: Arc::new(Fleet::from(index(clusters))),
                kubernetes: None,
                max_control_plane_kinds: 10,
                config: Config::default(),
                listen: Addresses { webhook: LOOPBACK, health: LOOPBACK, metrics: LOOPBACK },
                certificate: Certificate::SelfMade { write_ca: None },
                certificate_poll: Duration::from_secs(3600),
                limits: Limits::default(),
                grace: shutdown::GRACE,
            })
            .unwrap();
            tell.send(bound.addresses().webhook).unwrap();
            bound.run(futures::stream::pending()).await.unwrap();
        });
    });
    Server { address: told.recv().unwrap() }
}

/// Serves a handler that reads the whole body and answers 200 fixed bytes, with our server's settings.
pub fn serve_fixed() -> Server {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        rt::System::new().block_on(async move {
            let directory = tempfile::tempdir().unwrap();
            let (certificate, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
            write_certificate(&certificate, &key);
            let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
            acceptor.set_certificate_chain_file(&certificate).unwrap();
            acceptor.set_private_key_file(&key, SslFiletype::PEM).unwrap();
            let listener = TcpListener::bind(LOOPBACK).unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            let fixed = async |body: web::Bytes| {
                assert!(!body.is_empty());
                HttpResponse::Ok().content_type("application/json").body("x".repeat(200))
            };
            HttpServer::new(move || {
                let limit = web::PayloadConfig::new(8 << 20);
                App::new().app_data(limit).default_service(web::post().to(fixed))
            })
            .workers(std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2)))
            .keep_alive(server::KEEP_ALIVE)
            .tcp_nodelay(true)
            .disable_signals()
            .listen_openssl(listener, acceptor)
            .unwrap()
            .run()
            .await
            .unwrap();
        });
    });
    Server { address: told.recv().unwrap() }
}

/// A certificate for the baseline, of the same kind (ECDSA P-256) as ours.
pub fn write_certificate(certificate: &std::path::Path, key: &std::path::Path) {
    use openssl::{asn1::Asn1Time, ec, hash::MessageDigest, nid::Nid, pkey::PKey, x509};
    let group = ec::EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    let pair = PKey::from_ec_key(ec::EcKey::generate(&group).unwrap()).unwrap();
    let mut name = x509::X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", "localhost").unwrap();
    let name = name.build();
    let mut builder = x509::X509Builder::new().unwrap();
    builder.set_version(2).unwrap();
    builder.set_subject_name(&name).unwrap();
    builder.set_issuer_name(&name).unwrap();
    builder.set_pubkey(&pair).unwrap();
    builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
    let names = x509::extension::SubjectAlternativeName::new()
        .dns("localhost")
        .ip("127.0.0.1")
        .build(&builder.x509v3_context(None, None))
        .unwrap();
    builder.append_extension(names).unwrap();
    builder.sign(&pair, MessageDigest::sha256()).unwrap();
    std::fs::write(certificate, builder.build().to_pem().unwrap()).unwrap();
    std::fs::write(key, pair.private_key_to_pem_pkcs8().unwrap()).unwrap();
}
