//! The replacement of policy and keys in force.
//!
//! Problem: a new policy must not require a restart, and a mistake in it must not end the policy in
//! force. Approach: the files are read and checked as at the start; an error refuses them as a
//! whole, appears in the log and in the status, and the old ones stay in force. Then the host
//! changes over without a gap ([`Host::renew`](crate::host::Host::renew)). With the same racks,
//! machines and services in the policy the broker keeps its state. With others a new broker begins,
//! and limits stay in force until it has as much state
//! ([`RackBroker::resume`](weir_control::RackBroker::resume)). Another address of this machine
//! takes a restart.
//!
//! Worked example: `a` has at most 20 Mb/s, and 40 in the new policy: its class has the new ceiling
//! within the signal's handling, and its meter goes on.

use super::{AgentError, Daemon, host_context};
use crate::host::{self, Host, HostError};
use crate::notify;
use crate::runtime_config::RuntimeConfig;
use crate::status;
use tracing::{debug, error, info, warn};

impl Daemon {
    /// Puts the configuration in the files in force, whole or not at all. An error ends the agent:
    /// neither the new nor the old policy can be put in force.
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

    /// Refuses changes that a running agent cannot make.
    fn is_possible(&self, runtime_config: RuntimeConfig) -> Result<RuntimeConfig, String> {
        let old = self.config.runtime_config.listen;
        if runtime_config.listen != old {
            let new = runtime_config.listen;
            return Err(format!(
                "this machine is to listen on {new}, and the agent listens on {old}\n\
                 hint: that takes a restart: systemctl restart weir-agent"
            ));
        }
        self.tenants.check(&runtime_config, self.config.fabric.as_ref()).map_err(|error| error.to_string())?;
        Ok(runtime_config)
    }

    /// Puts a configuration in force, or returns the reason for a refusal.
    fn take(&mut self, runtime_config: RuntimeConfig) -> Result<Option<String>, AgentError> {
        let anew = self.broker.set_policy(&runtime_config.policy).is_err();
        let mut epoch = self.epoch;
        if anew {
            match self.config.source.next_epoch() {
                Ok(next) => epoch = next,
                Err(error) => return Ok(Some(format!("keep the epoch: {error}"))),
            }
        }
        let broker = &self.config.broker;
        let earlier = self.tenants.renew(&runtime_config);
        let renewed = match &mut self.host {
            Some(host) => host.renew(
                &host_context(&runtime_config, self.config.means(), self.cookie, epoch, broker, &self.tenants),
                anew,
            ),
            None => host::check(&runtime_config.policy, &self.config.interface),
        };
        if let Err(reason) = renewed {
            if self.host.as_ref().is_some_and(|host| !host.is_there()) && !reason.is_refusal() {
                // The interface has gone meanwhile; a new one is brought under the new policy.
                debug!("{reason}");
                self.lose();
            } else {
                self.tenants.restore(earlier);
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
                        self.config.means(),
                        self.cookie,
                        self.epoch,
                        broker,
                        &self.tenants,
                    );
                    HostError::unless_of_credits(host.renew(&old, false))?;
                }
                return Ok(Some(reason.to_string()));
            }
        }
        self.config.runtime_config = runtime_config;
        self.tenants.subscribe(&self.config)?;
        if anew {
            // Limits in force stay until the new broker has decided.
            let in_force = self.host.as_ref().map(Host::limits);
            self.begin_anew(epoch, in_force.as_deref());
        }
        self.session.concern(&self.config.runtime_config.policy);
        self.reporter.renew(status::outline(&self.config, self.host.as_ref(), epoch));
        Ok(None)
    }
}
