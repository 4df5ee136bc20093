//! A small private CA, for operators who have none.
//!
//! Problem: mutual TLS needs a CA and a certificate for each machine and fabric broker, and most ways to make
//! them are long. Approach: one directory. The CA is made once; certificates are added as machines come. Nothing
//! is ever overwritten, and private keys are readable by their owner only.
//!
//! | file | holds |
//! |---|---|
//! | `ca.pem`, `ca.key` | the CA; its key signs and goes nowhere |
//! | `machine-NAME.pem`, `machine-NAME.key` | what the agent of a machine needs, besides `ca.pem` |
//! | `fabric-HOST.pem`, `fabric-HOST.key` | the same for a fabric broker that agents reach by this name or address |
//!
//! A machine's certificate serves for client authentication only, a fabric broker's for server
//! authentication, so that a machine cannot pose as the broker (RFC 5280, 4.2.1.12). Keys are ECDSA
//! P-256.

use crate::identity::IdentityFiles;
use crate::state::secret::{self, SecretError};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// More than this is no key.
const LONGEST_KEY: u64 = 64 * 1024;
/// How long the CA lasts: it has to be copied to every host to be replaced.
const CA_DAYS: u64 = 3_650;
const DAY: Duration = Duration::from_secs(86_400);

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A private key cannot be read or written.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// One of two files that belong together is missing.
    #[error("{there} is there and {missing} is not; move it away, or bring the other one back")]
    Half {
        /// The file that is there.
        there: String,
        /// The file that is not.
        missing: String,
    },
    /// The name or the CA cannot be used.
    #[error("{what}: {error}")]
    Certificate {
        /// The holder of the certificate.
        what: String,
        /// The cause.
        #[source]
        error: rcgen::Error,
    },
}

/// The holder of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// The agent of a machine, by its name in the policy.
    Machine(String),
    /// A fabric broker that agents reach by these names or addresses; the first one names the files.
    Fabric(Vec<String>),
}

impl Holder {
    fn file(&self) -> String {
        match self {
            Self::Machine(name) => format!("machine-{name}"),
            Self::Fabric(hosts) => format!("fabric-{}", hosts.first().map_or("", String::as_str)),
        }
    }
}

/// Whether a file was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// It is new.
    New,
    /// It existed and is unchanged.
    Kept,
}

/// A CA in a directory.
pub struct Ca {
    directory: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    /// Opens the CA of a directory, or makes it.
    pub fn open(directory: &Path) -> Result<(Self, Made), CaError> {
        std::fs::create_dir_all(directory).map_err(|error| io_error(directory, error))?;
        let (certificate, key) = (directory.join("ca.pem"), directory.join("ca.key"));
        let wrong = |error| CaError::Certificate { what: certificate.display().to_string(), error };
        if both(&certificate, &key)? {
            let text = std::fs::read_to_string(&certificate).map_err(|error| io_error(&certificate, error))?;
            let pair = KeyPair::from_pem(&secret::read(&key, LONGEST_KEY)?).map_err(wrong)?;
            let issuer = Issuer::from_ca_cert_pem(&text, pair).map_err(wrong)?;
            return Ok((Self { directory: directory.to_owned(), issuer }, Made::Kept));
        }
        let pair = KeyPair::generate().map_err(wrong)?;
        let mut params = lasting(CA_DAYS);
        params.distinguished_name.push(DnType::CommonName, "Weir CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let made = params.self_signed(&pair).map_err(wrong)?;
        write(&certificate, &key, &made.pem(), &pair)?;
        Ok((Self { directory: directory.to_owned(), issuer: Issuer::new(params, pair) }, Made::New))
    }

    /// The certificate of the CA.
    pub fn certificate(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    /// Where a holder's files are.
    pub fn files(&self, holder: &Holder) -> IdentityFiles {
        let file = holder.file();
        IdentityFiles {
            certificate: self.directory.join(format!("{file}.pem")),
            private_key: self.directory.join(format!("{file}.key")),
            ca: self.certificate(),
        }
    }

    /// Makes a certificate that lasts `days`, unless it is there.
    pub fn issue(&self, holder: &Holder, days: u64) -> Result<Made, CaError> {
        let files = self.files(holder);
        if both(&files.certificate, &files.private_key)? {
            return Ok(Made::Kept);
        }
        let (names, usage) = match holder {
            Holder::Machine(name) => (std::slice::from_ref(name), ExtendedKeyUsagePurpose::ClientAuth),
            Holder::Fabric(hosts) => (hosts.as_slice(), ExtendedKeyUsagePurpose::ServerAuth),
        };
        let wrong = |error| CaError::Certificate { what: holder.file(), error };
        let mut params = lasting(days);
        params.subject_alt_names = CertificateParams::new(names).map_err(wrong)?.subject_alt_names;
        params.distinguished_name.push(DnType::CommonName, holder.file());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let pair = KeyPair::generate().map_err(wrong)?;
        let made = params.signed_by(&pair, &self.issuer).map_err(wrong)?;
        write(&files.certificate, &files.private_key, &made.pem(), &pair)?;
        Ok(Made::New)
    }
}

/// Valid from yesterday, because clocks differ.
fn lasting(days: u64) -> CertificateParams {
    #[expect(clippy::disallowed_methods, reason = "a certificate has a date; nothing is decided by it here")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let mut params = CertificateParams::default();
    params.not_before = epoch + now.saturating_sub(DAY);
    params.not_after = epoch + now + Duration::from_secs(DAY.as_secs().saturating_mul(days));
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
}

/// Whether both files are there; one alone is refused, since it would be overwritten or not match.
fn both(certificate: &Path, key: &Path) -> Result<bool, CaError> {
    let half = |there: &Path, missing: &Path| CaError::Half {
        there: there.display().to_string(),
        missing: missing.display().to_string(),
    };
    match (certificate.exists(), key.exists()) {
        (true, true) => Ok(true),
        (false, false) => Ok(false),
        (true, false) => Err(half(certificate, key)),
        (false, true) => Err(half(key, certificate)),
    }
}

fn write(certificate: &Path, key: &Path, pem: &str, pair: &KeyPair) -> Result<(), CaError> {
    secret::create(key, &pair.serialize_pem())?;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(certificate)
        .map_err(|error| io_error(certificate, error))?;
    file.write_all(pem.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| io_error(certificate, error))
}

fn io_error(path: &Path, error: io::Error) -> CaError {
    CaError::Io { path: path.display().to_string(), error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Identity, IdentityError, Use};
    use std::os::unix::fs::PermissionsExt;

    fn machine(name: &str) -> Holder {
        Holder::Machine(name.to_owned())
    }

    #[test]
    fn two_commands_create_all_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let (ca, made) = Ca::open(directory.path()).expect("made");
        assert_eq!(made, Made::New);
        assert_eq!(ca.issue(&machine("m_1"), 30).expect("made"), Made::New);
        let fabric = Holder::Fabric(vec!["fabric.example.org".into(), "10.0.0.1".into(), "::1".into()]);
        assert_eq!(ca.issue(&fabric, 30).expect("made"), Made::New);
        let files = ca.files(&machine("m_1"));
        let identity = Identity::read(&files).expect("sound");
        assert_eq!(identity.names(), ["m_1"]);
        let refused = identity.check_name("m2", &files).expect_err("another's").to_string();
        assert!(refused.ends_with("machine-m_1.pem does not name `m2`: it is for m_1"), "{refused}");
        let identity = Identity::read(&ca.files(&fabric)).expect("sound");
        assert_eq!(identity.names(), ["fabric.example.org", "10.0.0.1", "::1"]);
        for key in ["ca.key", "machine-m_1.key", "fabric-fabric.example.org.key"] {
            let mode = std::fs::metadata(directory.path().join(key)).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{key}");
        }
    }

    #[test]
    fn certificate_of_another_ca_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let ca = |name: &str| Ca::open(&directory.path().join(name)).expect("made").0;
        let (own, other) = (ca("own"), ca("other"));
        own.issue(&machine("m1"), 30).expect("made");
        let files = own.files(&machine("m1"));
        let now = Identity::read(&files).expect("sound").expires() - 86_400;
        Identity::read(&files).expect("sound").check_ca(now, &files).expect("of this CA");
        let files = IdentityFiles { ca: other.certificate(), ..files };
        let error = Identity::read(&files).expect("sound").check_ca(now, &files).expect_err("of another").to_string();
        assert!(error.contains("machine-m1.pem is not of the CA in ") && error.contains("other/ca.pem"), "{error}");
    }

    #[test]
    fn nothing_is_overwritten() {
        let directory = tempfile::tempdir().expect("a directory");
        let (ca, _) = Ca::open(directory.path()).expect("made");
        ca.issue(&machine("m1"), 30).expect("made");
        let all = || {
            let mut files: Vec<(PathBuf, String)> = std::fs::read_dir(directory.path())
                .expect("a directory")
                .map(|entry| entry.expect("an entry").path())
                .map(|path| (path.clone(), std::fs::read_to_string(path).expect("a file")))
                .collect();
            files.sort();
            files
        };
        let before = all();
        let (again, made) = Ca::open(directory.path()).expect("opened");
        assert_eq!((made, again.issue(&machine("m1"), 30).expect("kept")), (Made::Kept, Made::Kept));
        assert_eq!(all(), before);
        // Another certificate of the CA as it was read: what it signs is still its own.
        assert_eq!(again.issue(&machine("m2"), 30).expect("made"), Made::New);
        Identity::read(&again.files(&machine("m2"))).expect("sound");
        std::fs::remove_file(directory.path().join("machine-m1.pem")).expect("deleted");
        assert!(matches!(again.issue(&machine("m1"), 30), Err(CaError::Half { .. })));
    }

    #[test]
    fn a_certificate_is_for_its_use_and_for_its_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let (ca, _) = Ca::open(directory.path()).expect("made");
        let fabric = Holder::Fabric(vec!["10.0.0.1".to_owned()]);
        for holder in [&machine("m1"), &fabric] {
            ca.issue(holder, 30).expect("made");
        }
        let (files, of_machine) = (ca.files(&fabric), ca.files(&machine("m1")));
        let ends = Identity::read(&files).expect("sound").expires();
        let begins = ends - 31 * 86_400;
        let refused = |files: &IdentityFiles, host: Option<&str>, now: i64| {
            let error = Identity::of_broker(files, host, now).expect_err("refused");
            format!("{error}; {}", error.hint())
        };
        for now in [begins, ends] {
            Identity::of_broker(&files, Some("10.0.0.1"), now).expect("both days are its own");
        }
        let refusal = refused(&files, None, begins - 1);
        assert!(refusal.contains("fabric-10.0.0.1.pem is not valid before ") && refusal.contains("clock"), "{refusal}");
        let refusal = refused(&files, None, ends + 1);
        assert!(refusal.contains("fabric-10.0.0.1.pem ended on ") && refusal.contains("get a new one"), "{refusal}");
        let refusal = refused(&files, Some("10.0.0.2"), ends);
        assert!(refusal.contains("does not name `10.0.0.2`: it is for 10.0.0.1"), "{refusal}");
        let refusal = refused(&of_machine, None, ends);
        assert!(refusal.contains("machine-m1.pem is not for server authentication"), "{refusal}");
        assert!(refusal.ends_with("`weir certificate DIR --fabric HOST`"), "{refusal}");
        let uses = |files: &IdentityFiles| {
            let identity = Identity::read(files).expect("sound");
            [Use::Serve, Use::Connect].map(|wanted| identity.check_use(wanted, files).is_ok())
        };
        assert_eq!((uses(&files), uses(&of_machine)), ([true, false], [false, true]));
        // A certificate without usages serves for both.
        let params = CertificateParams::new(vec!["10.0.0.1".to_owned()]).expect("a name");
        let pair = KeyPair::generate().expect("a key");
        let made = params.signed_by(&pair, &ca.issuer).expect("signed");
        let [certificate, private_key] = ["any.pem", "any.key"].map(|name| directory.path().join(name));
        write(&certificate, &private_key, &made.pem(), &pair).expect("written");
        let any = IdentityFiles { certificate, private_key, ca: ca.certificate() };
        assert_eq!(uses(&any), [true, true]);
    }

    #[test]
    fn an_identity_that_cannot_work_is_refused_at_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let (ca, _) = Ca::open(directory.path()).expect("made");
        for name in ["m1", "m2"] {
            ca.issue(&machine(name), 30).expect("made");
        }
        let files = ca.files(&machine("m1"));
        let refused = |change: &dyn Fn(&mut IdentityFiles)| {
            let mut altered = files.clone();
            change(&mut altered);
            Identity::read(&altered).expect_err("refused").to_string()
        };
        let other = ca.files(&machine("m2"));
        let mixed = refused(&|files| files.private_key.clone_from(&other.private_key));
        assert!(mixed.contains("machine-m1.pem cannot be used"), "{mixed}");
        let empty = refused(&|files| files.ca.clone_from(&files.private_key));
        assert!(empty.ends_with("machine-m1.key does not hold a certificate"), "{empty}");
        let no_key = directory.path().join("no.key");
        secret::create(&no_key, "words").expect("written");
        let no_key = refused(&|files| files.private_key.clone_from(&no_key));
        assert!(no_key.contains("no.key does not hold a private key"), "{no_key}");
        std::fs::set_permissions(&files.private_key, std::fs::Permissions::from_mode(0o644)).expect("changed");
        assert!(matches!(Identity::read(&files), Err(IdentityError::Secret(SecretError::Open { mode: 0o644, .. }))));
    }
}
