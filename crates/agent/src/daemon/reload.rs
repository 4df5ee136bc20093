//! A policy and keys that take the place of those in force.
//!
//! Problem: a new policy must not cost a restart, nor a mistake in it the policy in force. Approach: the files are read and checked as at
//! the start; whatever is wrong refuses them as a whole, is said in the log and in the status, and the old ones go on. Then the
//! host changes over without a gap ([`Host::renew`](crate::host::Host::renew)). A policy with the same racks, machines and
//! services leaves the broker what it knows; with another it begins anew, and limits stay in force until it knows as much ([`RackBroker::resume`](weir_control::RackBroker::resume)).
//! Where this machine listens takes a restart.
//!
//! Worked example: `a` has at most 20 Mb/s, and 40 in the new policy: its class has the new ceiling within the signal's handling, its meter goes on.

use super::{AgentError, Daemon, standing};
use crate::host::{self, Host};
use crate::notify;
use crate::status;
use crate::terms::Terms;
use tracing::{debug, error, info, warn};

impl Daemon {
    /// Puts what the files say now in force, whole or not at all. An error ends the agent: neither the new nor the old policy can be had.
    pub(super) fn reload(&mut self) -> Result<(), AgentError> {
        let terms = self.config.source.terms().and_then(|terms| self.is_possible(terms));
        let refused = match terms {
            Ok(terms) => self.take(terms)?,
            Err(reason) => Some(reason),
        };
        match &refused {
            Some(reason) => {
                warn!("the policy and the keys are not taken, the old ones stay: {reason}");
                notify::status(&format!("a reload was refused: {reason}"));
            }
            None => {
                let Terms { policy, keys, .. } = &self.config.terms;
                let (digest, keys) = (policy.digest(), keys.all().len());
                info!("the policy is in force: {digest:016x}, with {keys} keys");
                notify::status(&format!("policy {digest:016x}, {keys} keys"));
            }
        }
        self.teller.reloaded(refused);
        self.tell_status();
        Ok(())
    }

    /// What a running agent cannot change is refused.
    fn is_possible(&self, terms: Terms) -> Result<Terms, String> {
        let old = self.config.terms.listen;
        if terms.listen != old {
            let new = terms.listen;
            return Err(format!(
                "this machine is to listen on {new}, and the agent listens on {old}\nhint: that takes a restart: systemctl restart weir-agent"
            ));
        }
        Ok(terms)
    }

    /// Puts terms in force, or says why that cannot be.
    fn take(&mut self, terms: Terms) -> Result<Option<String>, AgentError> {
        let anew = self.broker.set_policy(&terms.policy).is_err();
        let mut epoch = self.epoch;
        if anew {
            match self.config.source.next_epoch() {
                Ok(next) => epoch = next,
                Err(error) => return Ok(Some(format!("keep the epoch: {error}"))),
            }
        }
        let timeout = self.config.broker.timeout;
        let renewed = match &mut self.host {
            Some(host) => host.renew(&standing(&terms, self.config.backend, self.cookie, epoch, timeout), anew),
            None => host::check(&terms.policy, &self.config.interface),
        };
        if let Err(reason) = renewed {
            if self.host.as_ref().is_some_and(|host| !host.is_there()) && !reason.is_refusal() {
                // It has gone meanwhile; what comes back is brought under the new policy.
                debug!("{reason}");
                self.lose();
            } else {
                if !anew {
                    self.broker
                        .set_policy(&self.config.terms.policy)
                        .expect("it had this one, and the other has the same names");
                }
                if let Some(host) = &mut self.host
                    && !reason.is_refusal()
                {
                    error!("the policy cannot be put in force: {reason}; back to the old one");
                    let old = standing(&self.config.terms, self.config.backend, self.cookie, self.epoch, timeout);
                    host.renew(&old, false)?;
                }
                return Ok(Some(reason.to_string()));
            }
        }
        self.config.terms = terms;
        if anew {
            // What is in force stays until the new broker knows better.
            let in_force = self.host.as_ref().map(Host::limits);
            self.begin_anew(epoch, in_force.as_deref());
        }
        self.line.concern(&self.config.terms.policy);
        self.teller.renew(status::outline(&self.config, self.host.as_ref(), epoch));
        self.tell_absent();
        Ok(None)
    }
}
