//! A policy and keys that take the place of those in force.
//!
//! Problem: a new policy must not cost a restart, nor a mistake in it the policy in force. Approach: the files are read and checked as at
//! the start; whatever is wrong refuses them as a whole, is said in the log and in the status, and the old ones go on. Then the
//! host changes over without a gap ([`Host::renew`](crate::host::Host::renew)). A policy with the same racks, machines and
//! services leaves the broker what it knows; with another it begins anew, and limits stay in force until it knows as much ([`RackBroker::resume`](weir_control::RackBroker::resume)).
//! Where this machine listens takes a restart.
//!
//! Worked example: `a` has at most 20 Mb/s, and 40 in the new policy: its class has the new ceiling within the signal's handling, its meter goes on.

use super::{AgentError, Daemon, host_context};
use crate::host::{self, Host};
use crate::notify;
use crate::runtime_config::RuntimeConfig;
use crate::status;
use tracing::{debug, error, info, warn};

impl Daemon {
    /// Puts what the files say now in force, whole or not at all. An error ends the agent: neither the new nor the old policy can be had.
    pub(super) fn reload(&mut self) -> Result<(), AgentError> {
        let runtime_config =
            self.config.source.runtime_config().and_then(|runtime_config| self.is_possible(runtime_config));
        let refused = match runtime_config {
            Ok(runtime_config) => self.take(runtime_config)?,
            Err(reason) => Some(reason),
        };
        match &refused {
            Some(reason) => {
                warn!("the policy and the keys are not taken, the old ones stay: {reason}");
                notify::status(&format!("a reload was refused: {reason}"));
            }
            None => {
                let RuntimeConfig { policy, keys, .. } = &self.config.runtime_config;
                let (digest, keys) = (policy.digest(), keys.all().len());
                info!("the policy is in force: {digest:016x}, with {keys} keys");
                notify::status(&format!("policy {digest:016x}, {keys} keys"));
            }
        }
        self.reporter.reloaded(refused);
        self.report_status();
        Ok(())
    }

    /// What a running agent cannot change is refused.
    fn is_possible(&self, runtime_config: RuntimeConfig) -> Result<RuntimeConfig, String> {
        let old = self.config.runtime_config.listen;
        if runtime_config.listen != old {
            let new = runtime_config.listen;
            return Err(format!(
                "this machine is to listen on {new}, and the agent listens on {old}\nhint: that takes a restart: systemctl restart weir-agent"
            ));
        }
        Ok(runtime_config)
    }

    /// Puts terms in force, or says why that cannot be.
    fn take(&mut self, runtime_config: RuntimeConfig) -> Result<Option<String>, AgentError> {
        let anew = self.broker.set_policy(&runtime_config.policy).is_err();
        let mut epoch = self.epoch;
        if anew {
            match self.config.source.next_epoch() {
                Ok(next) => epoch = next,
                Err(error) => return Ok(Some(format!("keep the epoch: {error}"))),
            }
        }
        let timeout = self.config.broker.timeout;
        let renewed = match &mut self.host {
            Some(host) => {
                host.renew(&host_context(&runtime_config, self.config.backend, self.cookie, epoch, timeout), anew)
            }
            None => host::check(&runtime_config.policy, &self.config.interface),
        };
        if let Err(reason) = renewed {
            if self.host.as_ref().is_some_and(|host| !host.is_there()) && !reason.is_refusal() {
                // It has gone meanwhile; what comes back is brought under the new policy.
                debug!("{reason}");
                self.lose();
            } else {
                if !anew {
                    self.broker
                        .set_policy(&self.config.runtime_config.policy)
                        .expect("it had this one, and the other has the same names");
                }
                if let Some(host) = &mut self.host
                    && !reason.is_refusal()
                {
                    error!("the policy cannot be put in force: {reason}; back to the old one");
                    let old = host_context(
                        &self.config.runtime_config,
                        self.config.backend,
                        self.cookie,
                        self.epoch,
                        timeout,
                    );
                    host.renew(&old, false)?;
                }
                return Ok(Some(reason.to_string()));
            }
        }
        self.config.runtime_config = runtime_config;
        if anew {
            // What is in force stays until the new broker knows better.
            let in_force = self.host.as_ref().map(Host::limits);
            self.begin_anew(epoch, in_force.as_deref());
        }
        self.session.concern(&self.config.runtime_config.policy);
        self.reporter.renew(status::outline(&self.config, self.host.as_ref(), epoch));
        self.report_absent();
        Ok(None)
    }
}
