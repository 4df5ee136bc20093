//! The natural logarithm by additions, multiplications and divisions alone.
//!
//! Problem: exponential gaps need a logarithm, and the last bit of `f64::ln` differs between
//! platforms, since it comes from their mathematical libraries; one bit is enough to make two
//! machines draw different flows from one seed. Approach: the four basic operations are exact by
//! IEEE 754 and so the same everywhere. Take the exponent out of the float, so that x = m·2^e with
//! m in [1/√2, √2]; then ln x = e·ln 2 + 2·artanh(s) with s = (m − 1)/(m + 1), |s| at most 0.172,
//! by the series s + s³/3 + s⁵/5 + …; eleven terms leave less than 10^−18.
//!
//! Worked example: ln 3 = 2·ln 2 + ln 0.75, s = −1/7, series −0.2876820724; together 1.0986122887.
//!
//! Source: the series is standard (Abramowitz and Stegun, 4.1.27); the reduction is that of
//! fdlibm's `e_log.c`.

/// ln 2 in two parts: the first has so few bits that its product with an exponent is exact
/// (fdlibm's split).
const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// How many terms of the series are summed: 2·0.172^23/23 is 2·10^−19.
const TERMS: u32 = 11;

/// ln of a normal, positive `x`, within 10^−15 of the value or of the truth if that is larger.
pub(crate) fn ln(x: f64) -> f64 {
    debug_assert!(x.is_normal() && x > 0.0, "the logarithm of {x}");
    const FRACTION: u64 = (1 << 52) - 1;
    const ONE: u64 = 1023 << 52;
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut m = f64::from_bits((bits & FRACTION) | ONE);
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for term in (0..TERMS).rev() {
        sum = sum * square + 1.0 / f64::from(2 * term + 1);
    }
    let exponent = f64::from(exponent);
    exponent * LN2_HIGH + (2.0 * s * sum + exponent * LN2_LOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        assert_eq!(ln(1.0), 0.0);
        assert!((ln(3.0) - 1.098_612_288_668_109_8).abs() < 1e-15);
        assert!((ln(2f64.powi(-53)) + 36.736_800_569_677_1).abs() < 1e-13);
    }

    proptest! {
        #[test]
        fn agrees_with_the_platform(numerator in 1_u64..=1 << 53, power in -60..60_i32) {
            let x = numerator as f64 / (1_u64 << 53) as f64 * 2f64.powi(power);
            let expected = x.ln();
            prop_assert!((ln(x) - expected).abs() <= 1e-15 * expected.abs().max(1.0), "{} {}", ln(x), expected);
        }
        #[test]
        fn rises(numerator in 1_u64..1 << 53) {
            let at = |n: u64| ln(n as f64 / (1_u64 << 53) as f64);
            // Neighbours may be equal; a step down would be a larger error than a unit in the last
            // place.
            prop_assert!(at(numerator + 1) - at(numerator) >= -1e-15 * at(numerator).abs());
        }
    }
}
