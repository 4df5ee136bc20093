//! Texts of a bug report's archive.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use weir_capture::Redactor;

/// Removes the secrets of `data` as text, with a key in a line of its own and a password that another text names. Both
/// are in no output, and no line with a key is lost. Returns whether `data` is text.
///
/// # Panics
/// If that does not hold: a finding.
pub fn redaction(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let digest = Sha256::digest(data);
    let key: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let password = format!("Pw-{}", &key[..9]);
    let named = format!("password={password}\n");
    for secret in [key.clone(), key.to_ascii_uppercase(), STANDARD.encode(&key), password.clone()] {
        let whole = format!("{text}\n{secret}\n{text}\n{secret}");
        let (out, count) = Redactor::of([named.as_str(), whole.as_str()]).redact(&whole);
        let secret = secret.trim_end_matches('=');
        assert!(!text.contains(secret), "a digest is not in its own text");
        assert!(!out.contains(secret), "{secret:?} in {out:?}");
        assert!(count > 0, "{out:?}");
    }
    true
}
