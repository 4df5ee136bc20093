//! The watched sources: those of the command line, and the machines of a policy.

use crate::error::CommandError;
use std::net::SocketAddr;
use weir_observe::{Liveness, Source};
use weir_policy::Policy;

/// A source on the command line.
pub(crate) fn source(text: &str) -> Result<Source, CommandError> {
    text.parse().map_err(|error: weir_observe::source::SourceError| CommandError::refused(error.cause).hint(error.hint))
}

/// A policy's machines: as given, else at the policy's addresses, port 30566.
pub(crate) fn machines(policy: &Policy, given: &[String]) -> Result<Vec<Liveness>, CommandError> {
    let mut sources: Vec<Option<Source>> = vec![None; policy.network().machines().len()];
    for text in given {
        let hint = "write --agent MACHINE=URL, for example --agent m2=http://10.0.0.2:30566/status";
        let refuse = |reason: String| CommandError::refused(format!("--agent {text}: {reason}")).hint(hint);
        let (name, url) = text.split_once('=').ok_or_else(|| refuse("there is no `=`".to_owned()))?;
        let machine = policy.network().machine_named(name);
        let machine = machine.ok_or_else(|| refuse(format!("the policy has no machine `{name}`")))?;
        let slot = &mut sources[machine.index()];
        if slot.replace(source(url)?).is_some() {
            return Err(refuse(format!("`{name}` has a source already")));
        }
    }
    let one = |(machine, source): (&weir_network::Machine, Option<Source>)| {
        let at = |address| Source::at(SocketAddr::new(address, weir_status::DEFAULT_PORT));
        let source = source.or_else(|| machine.address().map(at)).ok_or_else(|| {
            let name = machine.name();
            CommandError::refused(format!("the agent of `{name}` has no address")).hint(format!(
                "write `network: {{ machines: {{ {name}: {{ address: 10.0.0.1 }} }} }}` in the policy, or use --agent"
            ))
        })?;
        Ok(Liveness::new(source, Some(machine.name().to_owned())))
    };
    policy.network().machines().iter().zip(sources).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(given: &[&str]) -> Result<Vec<String>, String> {
        let text = "weir: 1\nnetwork:\n  nic: 1Gb/s\n  racks: { r1: { uplink: 1Gb/s, machines: [m1, m2] } }\n  \
                    machines: { m1: { address: 10.0.0.1 } }\nservices: { a: { match: [ { port: 1 } ] } }\n";
        let (policy, _) = Policy::parse("policy.yaml", text).expect("sound");
        let given: Vec<String> = given.iter().map(|text| (*text).to_owned()).collect();
        machines(&policy, &given)
            .map(|all| all.iter().map(|seen| format!("{} {}", seen.name(), seen.source)).collect())
            .map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn addresses_are_the_policys_unless_given() {
        assert_eq!(
            sources(&["m2=http://h:1"]).expect("sound"),
            ["m1 http://10.0.0.1:30566/status", "m2 http://h:1/status"]
        );
        assert_eq!(sources(&["m2=m2.json", "m1=http://h:1/x"]).expect("sound"), ["m1 http://h:1/x", "m2 m2.json"]);
    }

    #[test]
    fn missing_and_repeated_sources_are_refused() {
        for (given, cause) in [
            (&[][..], "the agent of `m2` has no address"),
            (&["m2"], "there is no `=`"),
            (&["m3=http://h:1"], "the policy has no machine `m3`"),
            (&["m2=a", "m2=b"], "`m2` has a source already"),
            (&["m2=https://h"], "is not an http:// URL"),
        ] {
            let error = sources(given).expect_err(cause);
            assert!(error.contains(cause), "{error}");
        }
    }
}
