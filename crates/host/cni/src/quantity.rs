//! Quantities of Kubernetes as rates in bit/s.
//!
//! Problem: `10M`, `10Mi`, `1e7` and `0.01G` are quantities, `10m` is a hundredth of a bit, and `10Mbit` is none.
//! Approach: the grammar of Kubernetes, computed in integers and rounded up as there, within the bounds that the
//! kubelet sets for bandwidth; a refusal states a value that is accepted.
//!
//! Worked example: `1.5M` is 1,500,000 bit/s; `1Ki` is 1,024 bit/s; `10m` is refused, and 10M suggested.
//!
//! Source: k8s.io/apimachinery/pkg/api/resource/quantity.go (grammar); k8s.io/kubernetes/pkg/util/bandwidth/utils.go
//! (bounds).

use weir_units::Bandwidth;

/// The least limit, as of the kubelet: 1 kb/s.
pub const LEAST: Bandwidth = Bandwidth::from_bps(1_000);
/// The largest, as of the kubelet: 1 Pb/s.
pub const MOST: Bandwidth = Bandwidth::from_bps(1_000_000_000_000_000);
/// The most digits: with the largest factor, 2^60, a product fits 128 bits.
const DIGITS: usize = 20;
/// Powers of ten beyond this are outside the bounds whatever their digits.
const POWER: i32 = 36;

/// A rate within the bounds.
///
/// # Errors
/// The reason why it is none, with a remedy.
pub fn within_bounds(bps: u128) -> Result<Bandwidth, String> {
    match u64::try_from(bps).map(Bandwidth::from_bps) {
        Ok(rate) if rate < LEAST => Err(format!("{bps} bit/s is less than 1k (1 kb/s), the least limit")),
        Ok(rate) if rate <= MOST => Ok(rate),
        _ => Err("it is more than 1P (1 Pb/s), the largest limit; leave it out for no limit".into()),
    }
}

/// Reads a quantity as bits per second.
///
/// # Errors
/// The reason why it is no rate, with a remedy.
pub fn rate(text: &str) -> Result<Bandwidth, String> {
    let hint = "write bits per second as 10M, with one of k, M, G, T, P, Ki, Mi, Gi, Ti and Pi";
    let number_ends = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(number_ends);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if text.starts_with('-') {
        return Err(format!("it is negative; {hint}"));
    }
    if fraction.contains('.') || whole.len() + fraction.len() == 0 {
        return Err(format!("it does not start with a number; {hint}"));
    }
    let digits = format!("{}{}", whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    if digits.len() > DIGITS {
        return Err(format!("its number has more than {DIGITS} digits; {hint}"));
    }
    let decimals = fraction.trim_end_matches('0').len() as i32;
    let mantissa = if digits.is_empty() { 0 } else { digits.parse::<u128>().map_err(|error| error.to_string())? };
    let (factor, power) = multiplier(suffix).ok_or_else(|| format!("`{suffix}` is no suffix; {hint}"))?;
    let power = power - decimals;
    if suffix == "m" && mantissa > 0 {
        return Err(format!("m stands for thousandths; for megabits per second write {number}M"));
    }
    let too_many = || within_bounds(u128::MAX);
    if mantissa == 0 {
        return within_bounds(0);
    }
    if power.abs() > POWER {
        return if power > 0 { too_many() } else { within_bounds(1) };
    }
    let scale = 10_u128.pow(power.unsigned_abs());
    // Twenty digits times 2^60 fit.
    let product = mantissa * factor;
    if power < 0 {
        return within_bounds(product.div_ceil(scale));
    }
    product.checked_mul(scale).map_or_else(too_many, within_bounds)
}

/// The factor and the power of ten of a suffix.
fn multiplier(suffix: &str) -> Option<(u128, i32)> {
    let binary = |power: u32| (1 << (10 * power), 0);
    Some(match suffix {
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "" => (1, 0),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            // Any that does not fit is out of bounds.
            let power = digits.parse().unwrap_or(1000).min(1000);
            (1, if exponent.starts_with('-') { -power } else { power })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_those_of_kubernetes() {
        for (text, bps) in [
            ("1000", 1_000),
            ("10M", 10_000_000),
            ("500k", 500_000),
            ("1G", 1_000_000_000),
            ("1.5M", 1_500_000),
            (".5G", 500_000_000),
            ("5.M", 5_000_000),
            ("0010M", 10_000_000),
            ("1.50000000000000000000000M", 1_500_000),
            ("1Ki", 1_024),
            ("1.5Gi", 1_610_612_736),
            ("1e7", 10_000_000),
            ("1E+7", 10_000_000),
            ("100e-1k", 0),
            ("12345e-1", 1_235),
            ("1P", 1_000_000_000_000_000),
            ("0.000000000001E", 1_000_000),
        ] {
            let expected = if bps == 0 { None } else { Some(Bandwidth::from_bps(bps)) };
            assert_eq!(rate(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn others_are_refused_with_a_remedy() {
        let hint = "write bits per second as 10M, with one of k, M, G, T, P, Ki, Mi, Gi, Ti and Pi";
        for (text, why) in [
            ("", format!("it does not start with a number; {hint}")),
            ("M", format!("it does not start with a number; {hint}")),
            ("1.2.3M", format!("it does not start with a number; {hint}")),
            ("-10M", format!("it is negative; {hint}")),
            ("10Mbit", format!("`Mbit` is no suffix; {hint}")),
            ("10 M", format!("` M` is no suffix; {hint}")),
            ("10K", format!("`K` is no suffix; {hint}")),
            ("1e", format!("`e` is no suffix; {hint}")),
            ("123456789012345678901", format!("its number has more than 20 digits; {hint}")),
            ("10m", "m stands for thousandths; for megabits per second write 10M".into()),
            ("999", "999 bit/s is less than 1k (1 kb/s), the least limit".into()),
            ("0", "0 bit/s is less than 1k (1 kb/s), the least limit".into()),
            ("1e-99", "1 bit/s is less than 1k (1 kb/s), the least limit".into()),
            ("1.1P", "it is more than 1P (1 Pb/s), the largest limit; leave it out for no limit".into()),
            (
                "99999999999999999999Ei",
                "it is more than 1P (1 Pb/s), the largest limit; leave it out for no limit".into(),
            ),
            ("1e99999999999", "it is more than 1P (1 Pb/s), the largest limit; leave it out for no limit".into()),
        ] {
            assert_eq!(rate(text), Err(why), "{text}");
        }
    }
}
