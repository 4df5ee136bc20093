//! A rotation of keys in which one machine misses steps: the machines that count forged datagrams, as the table of
//! docs/how-to/secure.md ("Replace the key") has them.

use super::{DecodeError, Key, Keys, Message, decode, encode};
use crate::UsageReport;
use weir_units::{MachineId, ServiceId};

/// The keys after so many steps: the new key is added, it signs, the old key is removed.
fn keys_after(steps: usize) -> Keys {
    let key = |byte| Key::new([byte; 32]).expect("a key");
    let (old, new) = (key(1), key(2));
    let keys = match steps {
        0 => vec![old],
        1 => vec![old, new],
        2 => vec![new, old],
        _ => vec![new],
    };
    Keys::new(keys).expect("different keys")
}

/// Whether a machine after `receiver` steps counts a datagram of one after `sender` steps as forged.
fn is_forged(sender: usize, receiver: usize) -> bool {
    let message = Message::from(UsageReport {
        machine: MachineId(1),
        policy: 1,
        epoch: 1,
        round: 1,
        first: ServiceId(0),
        last: ServiceId(u32::MAX),
        rows: vec![],
    });
    match decode(&encode(&message, keys_after(sender).signing()), &keys_after(receiver)) {
        Ok(decoded) => {
            assert_eq!(decoded, message);
            false
        }
        Err(error) => {
            assert_eq!(error, DecodeError::Forged);
            true
        }
    }
}

#[test]
fn machine_two_steps_behind_has_forged_datagrams_on_one_side() {
    // (Steps of the machine, steps of the others): (forged ones that it counts, forged ones that the others count).
    let table = [
        ((0, 0), (false, false)),
        ((0, 1), (false, false)),
        ((1, 2), (false, false)),
        ((2, 3), (false, false)),
        // The others sign with the new key, which the machine does not have; they still have the old one.
        ((0, 2), (true, false)),
        // The machine signs with the old key, which the others have removed.
        ((1, 3), (false, true)),
        ((0, 3), (true, true)),
    ];
    for ((machine, others), counted) in table {
        let found = (is_forged(others, machine), is_forged(machine, others));
        assert_eq!(found, counted, "the machine after {machine} steps, the others after {others}");
    }
}
