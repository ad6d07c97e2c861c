//! A certificate for a server without a cluster: made at start, with a CA of its own that is made for it and forgotten.

use std::{
    fs::{self, Permissions},
    io::{self, Write},
    net::IpAddr,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use openssl::{
    asn1::Asn1Time,
    bn::{BigNum, MsbOption},
    ec::{EcGroup, EcKey},
    error::ErrorStack,
    hash::MessageDigest,
    nid::Nid,
    pkey::{PKey, Private},
    x509::{
        X509, X509Builder, X509NameBuilder, X509Ref,
        extension::{
            AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAlternativeName,
            SubjectKeyIdentifier,
        },
    },
};

use super::tls::Pair;

/// Longer than any demonstration or pipeline runs. Nothing renews it but a restart.
const DAYS: u32 = 365;

/// A made certificate.
pub struct SelfMade {
    /// What the server serves.
    pub pair: Pair,
    /// What clients trust, in PEM.
    pub ca: Vec<u8>,
}

/// Makes a certificate for this machine's own names, and for `listen` if that is an address.
///
/// # Errors
/// If OpenSSL refuses, for want of entropy or because its configuration forbids the curve.
pub fn make(listen: IpAddr) -> Result<SelfMade, ErrorStack> {
    let (ca_key, key) = (new_key()?, new_key()?);
    let ca = certificate_authority(&ca_key)?;
    let leaf = leaf(&key, listen, &ca, &ca_key)?;
    let pair = Pair { certificate: leaf.to_pem()?, private_key: key.private_key_to_pem_pkcs8()? };
    Ok(SelfMade { pair, ca: ca.to_pem()? })
}

fn certificate_authority(key: &PKey<Private>) -> Result<X509, ErrorStack> {
    let mut builder = unsigned("capi-version-guard's own CA", key)?;
    builder.append_extension(BasicConstraints::new().critical().ca().pathlen(0).build()?)?;
    builder.append_extension(KeyUsage::new().critical().key_cert_sign().build()?)?;
    let identifier = SubjectKeyIdentifier::new().build(&builder.x509v3_context(None, None))?;
    builder.append_extension(identifier)?;
    let name = subject("capi-version-guard's own CA")?;
    builder.set_issuer_name(&name)?;
    builder.sign(key, MessageDigest::sha256())?;
    Ok(builder.build())
}

fn leaf(key: &PKey<Private>, listen: IpAddr, ca: &X509Ref, ca_key: &PKey<Private>) -> Result<X509, ErrorStack> {
    let mut builder = unsigned("capi-version-guard", key)?;
    builder.set_issuer_name(ca.subject_name())?;
    builder.append_extension(BasicConstraints::new().critical().build()?)?;
    builder.append_extension(KeyUsage::new().critical().digital_signature().build()?)?;
    builder.append_extension(ExtendedKeyUsage::new().server_auth().build()?)?;
    let mut names = SubjectAlternativeName::new();
    names.dns("localhost").ip("127.0.0.1").ip("::1");
    if !listen.is_unspecified() && !listen.is_loopback() {
        names.ip(&listen.to_string());
    }
    let names = names.build(&builder.x509v3_context(Some(ca), None))?;
    builder.append_extension(names)?;
    let identifier = SubjectKeyIdentifier::new().build(&builder.x509v3_context(Some(ca), None))?;
    builder.append_extension(identifier)?;
    let issuer = AuthorityKeyIdentifier::new().keyid(true).build(&builder.x509v3_context(Some(ca), None))?;
    builder.append_extension(issuer)?;
    builder.sign(ca_key, MessageDigest::sha256())?;
    Ok(builder.build())
}

fn new_key() -> Result<PKey<Private>, ErrorStack> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    PKey::from_ec_key(EcKey::generate(&group)?)
}

/// What both certificates have alike.
fn unsigned(name: &str, key: &PKey<Private>) -> Result<X509Builder, ErrorStack> {
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    let mut serial = BigNum::new()?;
    serial.rand(127, MsbOption::ONE, false)?;
    let serial = serial.to_asn1_integer()?;
    builder.set_serial_number(&serial)?;
    let name = subject(name)?;
    builder.set_subject_name(&name)?;
    builder.set_pubkey(key)?;
    // An hour back, for clients whose clock is behind.
    let from = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
    let from = Asn1Time::from_unix(i64::try_from(from).unwrap_or_default() - 3600)?;
    builder.set_not_before(&from)?;
    let until = Asn1Time::days_from_now(DAYS)?;
    builder.set_not_after(&until)?;
    Ok(builder)
}

fn subject(name: &str) -> Result<openssl::x509::X509Name, ErrorStack> {
    let mut builder = X509NameBuilder::new()?;
    builder.append_entry_by_text("CN", name)?;
    Ok(builder.build())
}

/// Writes a file that others read: whole or not at all, so that who waits for it never sees a part.
///
/// # Errors
/// If the file, or one beside it, cannot be written.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it names no file"))?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(beside);
    let written = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&beside)
        // Past the umask: a CA is public, and its readers may be other users.
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.set_permissions(Permissions::from_mode(0o644))))
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // The first error says more than one of the clean-up.
        let _ = fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use openssl::{
        stack::Stack,
        x509::{
            X509, X509PurposeId, X509StoreContext, X509StoreContextRef, store::X509StoreBuilder,
            verify::X509VerifyParam,
        },
    };

    use super::make;

    #[test]
    fn the_certificate_is_good_for_this_machine_and_for_the_address_that_is_listened_on() {
        let verified = |listen: &str, name: &str| {
            let made = make(listen.parse().expect("an address")).expect("a certificate");
            let leaf = X509::from_pem(&made.pair.certificate).expect("a leaf");
            let mut store = X509StoreBuilder::new().expect("a store");
            store.add_cert(X509::from_pem(&made.ca).expect("a CA")).expect("to trust");
            let mut wanted = X509VerifyParam::new().expect("parameters");
            match name.parse() {
                Ok(ip) => wanted.set_ip(ip).expect("an IP"),
                Err(_) => wanted.set_host(name).expect("a host"),
            }
            wanted.set_purpose(X509PurposeId::SSL_SERVER).expect("a purpose");
            store.set_param(&wanted).expect("parameters");
            let chain = Stack::new().expect("a chain");
            let mut context = X509StoreContext::new().expect("a context");
            context.init(&store.build(), &leaf, &chain, X509StoreContextRef::verify_cert).expect("to verify")
        };
        for name in ["127.0.0.1", "::1", "localhost"] {
            for listen in ["0.0.0.0", "::", "127.0.0.1", "192.0.2.7", "2001:db8::7"] {
                assert!(verified(listen, name), "{name}, listening on {listen}");
            }
        }
        assert!(verified("192.0.2.7", "192.0.2.7"));
        assert!(verified("2001:db8::7", "2001:db8::7"));
        assert!(!verified("0.0.0.0", "192.0.2.7"));
        assert!(!verified("0.0.0.0", "example.com"));
    }
}
