//! Rates as bit/s in JSON; `null` for no bound.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_units::Bandwidth;

pub(crate) fn serialize<S: Serializer>(rate: &Bandwidth, serializer: S) -> Result<S::Ok, S::Error> {
    rate.serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bandwidth, D::Error> {
    Ok(Option::<u64>::deserialize(deserializer)?.map_or(Bandwidth::UNLIMITED, Bandwidth::from_bps))
}

/// Rates that may be absent, but never unlimited: absence and unlimited could not be distinguished.
pub(crate) mod known {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(rate: &Option<Bandwidth>, serializer: S) -> Result<S::Ok, S::Error> {
        rate.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bandwidth>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Bandwidth::from_bps))
    }
}

/// Rates that may be absent or unlimited: `null`.
pub(crate) mod demand {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(rate: &Option<Bandwidth>, serializer: S) -> Result<S::Ok, S::Error> {
        rate.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bandwidth>, D::Error> {
        super::deserialize(deserializer).map(Some)
    }
}
