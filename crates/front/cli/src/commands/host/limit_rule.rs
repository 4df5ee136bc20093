//! `--rule`: the instances that have limits, and how soon a limit follows a change.

use weir_control::{FabricBrokerConfig, RackBrokerConfig};

/// `--rule`; of scenarios the key `brokers.rule`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RuleChoice {
    /// Every instance under a maximum has a ceiling; reports at once after a change
    Ceilings,
    /// Parley's: only backlogged instances have limits, computed once a period
    Published,
}

impl RuleChoice {
    /// A rack broker's timing and rule.
    pub(crate) fn rack(self) -> RackBrokerConfig {
        match self {
            Self::Ceilings => RackBrokerConfig::default(),
            Self::Published => RackBrokerConfig::published(),
        }
    }

    /// A fabric broker's timing and rule in place of the default ones.
    pub(crate) fn fabric(self, config: FabricBrokerConfig) -> FabricBrokerConfig {
        match self {
            Self::Ceilings => config,
            Self::Published => config.published(),
        }
    }
}
