//! A CA and one serving certificate for everything that listens here.

use std::{fs, path::Path};

use anyhow::Result;
use openssl::{
    asn1::Asn1Time,
    bn::{BigNum, MsbOption},
    ec::{EcGroup, EcKey},
    hash::MessageDigest,
    nid::Nid,
    pkey::{PKey, Private},
    rsa::Rsa,
    x509::{
        X509, X509Builder, X509NameBuilder,
        extension::{BasicConstraints, KeyUsage, SubjectAlternativeName},
    },
};

/// The Service by which a test is called.
pub const SERVICE: &str = "recorder.external-name.svc";

/// Writes `ca.crt`, `tls.crt` and `tls.key` (for localhost, 127.0.0.1 and [`SERVICE`]), and `sa.key` and `sa.pub` for the API
/// server's tokens, into `directory`.
pub fn write(directory: &Path) -> Result<()> {
    let ca_key = key()?;
    let mut ca = builder("capi-version-guard e2e CA", &ca_key)?;
    ca.append_extension(BasicConstraints::new().critical().ca().build()?)?;
    ca.append_extension(KeyUsage::new().critical().key_cert_sign().crl_sign().build()?)?;
    ca.sign(&ca_key, MessageDigest::sha256())?;
    let ca = ca.build();

    let leaf_key = key()?;
    let mut leaf = builder("localhost", &leaf_key)?;
    leaf.set_issuer_name(ca.subject_name())?;
    let mut names = SubjectAlternativeName::new();
    names.dns("localhost").ip("127.0.0.1").dns(SERVICE);
    let names = names.build(&leaf.x509v3_context(Some(&ca), None))?;
    leaf.append_extension(names)?;
    leaf.sign(&ca_key, MessageDigest::sha256())?;

    let service_accounts = PKey::from_rsa(Rsa::generate(2048)?)?;
    for (file, bytes) in [
        ("ca.crt", ca.to_pem()?),
        ("tls.crt", leaf.build().to_pem()?),
        ("tls.key", leaf_key.private_key_to_pem_pkcs8()?),
        ("sa.key", service_accounts.private_key_to_pem_pkcs8()?),
        ("sa.pub", service_accounts.public_key_to_pem()?),
    ] {
        fs::write(directory.join(file), bytes)?;
    }
    Ok(())
}

fn key() -> Result<PKey<Private>> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    Ok(PKey::from_ec_key(EcKey::generate(&group)?)?)
}

/// A certificate of `name` that is its own issuer until another is set.
fn builder(name: &str, key: &PKey<Private>) -> Result<X509Builder> {
    let mut subject = X509NameBuilder::new()?;
    subject.append_entry_by_nid(Nid::COMMONNAME, name)?;
    let subject = subject.build();
    let mut serial = BigNum::new()?;
    serial.rand(127, MsbOption::MAYBE_ZERO, false)?;
    let mut certificate = X509::builder()?;
    certificate.set_version(2)?;
    certificate.set_serial_number(&*serial.to_asn1_integer()?)?;
    certificate.set_subject_name(&subject)?;
    certificate.set_issuer_name(&subject)?;
    certificate.set_pubkey(key)?;
    certificate.set_not_before(&*Asn1Time::days_from_now(0)?)?;
    certificate.set_not_after(&*Asn1Time::days_from_now(2)?)?;
    Ok(certificate)
}
