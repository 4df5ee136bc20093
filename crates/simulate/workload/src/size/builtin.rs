//! [`Builtin`]: the published distributions, in the program. Their files and provenance are in
//! `data/`.

use super::SizeDistribution;

/// A published distribution of flow sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Builtin {
    /// Web search (DCTCP, SIGCOMM 2010, as pFabric and QJump simulate it): mean 1.67 MB.
    WebSearch,
    /// Data mining (VL2, SIGCOMM 2009, as pFabric and QJump simulate it): mean 7.47 MB.
    DataMining,
    /// Enterprise (CONGA, SIGCOMM 2014): mean 157 kB.
    Enterprise,
}

impl Builtin {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::WebSearch, Self::DataMining, Self::Enterprise];

    /// Its name in files: `websearch`, `datamining`, `enterprise`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WebSearch => "websearch",
            Self::DataMining => "datamining",
            Self::Enterprise => "enterprise",
        }
    }

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|builtin| builtin.name() == name)
    }

    /// Its table, from `data/cdf`.
    pub const fn table(self) -> &'static str {
        match self {
            Self::WebSearch => include_str!("../../../../../data/cdf/websearch.csv"),
            Self::DataMining => include_str!("../../../../../data/cdf/datamining.csv"),
            Self::Enterprise => include_str!("../../../../../data/cdf/enterprise.csv"),
        }
    }

    /// The distribution.
    pub fn sizes(self) -> SizeDistribution {
        SizeDistribution::read(self.table().as_bytes()).unwrap_or_else(|error| unreachable!("{}: {error}", self.name()))
    }
}
