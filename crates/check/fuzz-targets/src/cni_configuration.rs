//! Configurations of the CNI plugin.

use weir_cni::configuration::Configuration;
use weir_cni::error::CniError;
use weir_cni::limits::Limits;
use weir_cni::quantity::{LEAST, MOST};

/// A network configuration on the standard input of `weir-cni`. A valid one has limits within the bounds and passes its
/// previous result on as it is; a refusal has a remedy. Returns whether ADD would take it.
pub fn cni_configuration(data: &[u8]) -> bool {
    let refused = |error: CniError| {
        assert!(!error.message.is_empty() && !error.details.is_empty(), "{error:?}");
        let object = error.print("1.1.0");
        assert!(object.starts_with("{\"cniVersion\":\"1.1.0\",\"code\":") && object.ends_with("\"}\n"), "{object}");
        false
    };
    let configuration = match Configuration::read(data) {
        Ok(configuration) => configuration,
        Err(error) => return refused(error),
    };
    // GC reads this beside anything.
    if let Err(error) = configuration.valid_attachments() {
        refused(error);
    }
    let of_add =
        configuration.check_keys().and_then(|()| Ok((configuration.previous()?, Limits::read(&configuration)?)));
    match of_add {
        Ok((previous, limits)) => {
            let rates = [limits.ingress, limits.egress];
            assert!(rates.into_iter().flatten().all(|rate| (LEAST..=MOST).contains(&rate)), "{limits:?}");
            assert!(String::from_utf8_lossy(data).contains(previous.text()), "{}", previous.text());
            // Any interface may be the container's.
            previous.addresses("eth0");
            true
        }
        Err(error) => refused(error),
    }
}
