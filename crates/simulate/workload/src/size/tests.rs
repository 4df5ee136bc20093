//! Oracles: published means and shares; samples against the exact distribution.

use super::*;
use crate::Rng;
use proptest::prelude::*;
use weir_document::table::TableError;

fn read(text: &str) -> Result<SizeDistribution, TableError> {
    SizeDistribution::read(text.as_bytes())
}

#[test]
fn published_means_and_shares() {
    // Integrals of the straight lines, from the tables by hand; half a byte more for whole sizes.
    for (builtin, mean) in
        [(Builtin::WebSearch, 1_665_830.8), (Builtin::DataMining, 7_470_236.0), (Builtin::Enterprise, 157_357.423)]
    {
        let sizes = builtin.sizes();
        assert!((0.0..=0.5).contains(&(sizes.mean() - mean)), "{builtin:?}: {}", sizes.mean());
        assert_eq!(Builtin::named(builtin.name()), Some(builtin));
    }
    let search = Builtin::WebSearch.sizes();
    assert!((search.share_up_to(973_820) - 0.7).abs() < 1e-12);
    // "95 % of the bytes in the 30 % of flows above 0.97 MB" is 94.8 % by the line rule.
    assert!((search.share_of_bytes_above(973_820) - 0.95).abs() < 0.01, "{}", search.share_of_bytes_above(973_820));
    let mining = Builtin::DataMining.sizes();
    assert!((mining.share_up_to(10_220) - 0.8).abs() < 1e-12);
    let above = mining.share_of_bytes_above(35_000_000);
    assert!((above - 0.95).abs() < 0.02, "{above}");
    assert!((mining.share_up_to(35_000_000) - 0.96).abs() < 0.01);
    // 1141 and 5117 packets of 1460 bytes, equal to the same rows in packets.
    assert!((search.mean() / 1460.0 - 1141.0).abs() < 0.1);
    assert!((mining.mean() / 1460.0 - 5116.6).abs() < 0.1);
}

#[test]
fn the_worked_example() {
    let sizes = read("size_bytes,cdf\n1000,0.5\n3000,1\n").expect("two rows");
    assert_eq!(sizes.mean(), 1500.25);
    assert_eq!(sizes.quantile(0), 1000);
    assert_eq!(sizes.quantile(u64::MAX / 2), 1000);
    assert_eq!(sizes.quantile(1 << 63), 1001);
    assert_eq!(sizes.quantile(u64::MAX), 3000);
    assert_eq!(sizes.share_up_to(2000), 0.75);
    assert_eq!(sizes.largest(), 3000);
}

#[test]
fn samples_have_the_exact_moments() {
    for builtin in Builtin::ALL {
        let sizes = builtin.sizes();
        let framing = Framing::new(1460, 40).expect("a payload");
        let (mut rng, n) = (Rng::stream(11, 0), 400_000_u32);
        let (mut sum, mut wire, mut small) = (0.0, 0.0, 0_u32);
        for _ in 0..n {
            let size = sizes.sample(&mut rng);
            sum += size as f64;
            wire += framing.wire_bytes(size) as f64;
            small += u32::from(size <= 10_000);
        }
        let n = f64::from(n);
        // Five standard errors of a mean.
        let error = 5.0 * ((sizes.mean_square() - sizes.mean().powi(2)) / n).sqrt();
        assert!((sum / n - sizes.mean()).abs() < error, "{builtin:?}: {} ± {error}", sum / n);
        // Wire bytes are 1500/1460 of the sizes, and up to a packet's headers more.
        assert!((wire / n - sizes.mean_wire_bytes(framing)).abs() < 1.03 * error, "{builtin:?}");
        let share = sizes.share_up_to(10_000);
        assert!((f64::from(small) / n - share).abs() < 5.0 * (share * (1.0 - share) / n).sqrt(), "{builtin:?}");
    }
}

#[test]
fn fixed_and_uniform() {
    let mut rng = Rng::stream(5, 0);
    let fixed = SizeDistribution::fixed(64).expect("a size");
    assert!((0..100).all(|_| fixed.sample(&mut rng) == 64));
    assert_eq!((fixed.mean(), fixed.mean_square()), (64.0, 4096.0));
    let die = SizeDistribution::uniform(1, 6).expect("a range");
    let mut seen = [0_u32; 6];
    for _ in 0..60_000 {
        seen[die.sample(&mut rng) as usize - 1] += 1;
    }
    // Chi-square with 5 degrees of freedom: above 20.5 in one of a thousand.
    let chi: f64 = seen.iter().map(|&n| (f64::from(n) - 10_000.0).powi(2) / 10_000.0).sum();
    assert!(chi < 20.5, "{seen:?}");
    assert!((die.mean_square() - 91.0 / 6.0).abs() < 1e-12);
    for refused in [SizeDistribution::fixed(0), SizeDistribution::uniform(0, 5), SizeDistribution::uniform(6, 5)] {
        assert!(refused.is_err());
    }
}

#[test]
fn wrong_tables_are_refused_with_their_lines() {
    let cases = [
        ("no column", "size,share\n1,1\n"),
        ("misspelt column", "size_byte,cdf\n1,1\n"),
        ("no rows", "size_bytes,cdf\n"),
        ("nothing", ""),
        ("not ascending", "size_bytes,cdf\n100,0.5\n50,1\n"),
        ("falling share", "size_bytes,cdf\n100,0.5\n200,0.4\n300,1\n"),
        ("above one", "size_bytes,cdf\n100,0.5\n200,50\n"),
        ("end below one", "size_bytes,cdf\n100,0.5\n200,0.99\n"),
        ("zero bytes", "size_bytes,cdf\n0,0.5\n200,1\n"),
        ("zero bytes later", "size_bytes,cdf\n0,0\n0,0.5\n200,1\n"),
        ("not numbers", "size_bytes,cdf\n1.5,0.5\n200,half\n-3,\u{1b}[2J\n"),
        ("fields", "size_bytes,cdf\n100,0.5,7\n200\n"),
        ("endless", "size_bytes,cdf\n18446744073709551615,1\n"),
    ];
    let report: String =
        cases.iter().map(|(name, text)| format!("{name}:\n{}\n\n", read(text).expect_err(name))).collect();
    insta::assert_snapshot!(report);
}

proptest! {
    #[test]
    fn quantiles_rise_and_invert_the_shares(
        rows in prop::collection::vec((1_u64..100_000, 0.0..1.0_f64), 1..20),
        fractions in prop::collection::vec(0_u64.., 20),
    ) {
        let (mut sizes, mut shares): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        sizes.sort_unstable();
        shares.sort_by(f64::total_cmp);
        if let Some(last) = shares.last_mut() {
            *last = 1.0;
        }
        let rows: String = sizes.iter().zip(&shares).map(|(size, share)| format!("{size},{share}\n")).collect();
        let sizes = read(&format!("size_bytes,cdf\n{rows}")).expect("valid rows");
        let mut fractions = fractions;
        fractions.sort_unstable();
        let mut before = 0;
        for fraction in fractions {
            let size = sizes.quantile(fraction);
            prop_assert!(size >= before && size >= 1);
            before = size;
            // The share of sizes below this one is at most the fraction, that of sizes up to it at
            // least.
            let fraction = fraction as f64 / ONE as f64;
            prop_assert!(sizes.share_up_to(size - 1) <= fraction + 1e-9);
            prop_assert!(sizes.share_up_to(size) >= fraction - 1e-9);
        }
    }
    #[test]
    fn means_are_sums_over_every_size(
        rows in prop::collection::vec((1_u64..2_000, 1_u32..1000), 1..8),
        payload in 1_u32..200,
        headers in 0_u32..100,
    ) {
        let (mut sizes, weights): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        sizes.sort_unstable();
        let total: u32 = weights.iter().sum();
        let mut sum = 0;
        let mut table = String::from("size_bytes,cdf\n");
        for (size, weight) in sizes.iter().zip(weights) {
            sum += weight;
            table += &format!("{size},{}\n", f64::from(sum) / f64::from(total));
        }
        let sizes = read(&table).expect("valid rows");
        let framing = Framing::new(payload, headers).expect("a payload");
        let (mut mean, mut square, mut packets, mut wire) = (0.0, 0.0, 0.0, 0.0);
        for size in 1..=sizes.largest() {
            let share = sizes.share_up_to(size) - sizes.share_up_to(size - 1);
            mean += share * size as f64;
            square += share * (size * size) as f64;
            packets += share * framing.packets(size) as f64;
            wire += share * framing.wire_bytes(size) as f64;
        }
        for (sum, exact) in [
            (mean, sizes.mean()),
            (square, sizes.mean_square()),
            (packets, sizes.mean_packets(framing)),
            (wire, sizes.mean_wire_bytes(framing)),
        ] {
            prop_assert!((sum / exact - 1.0).abs() < 1e-9, "{sum} {exact}");
        }
        let half = sizes.largest() / 2;
        let above: f64 = (half + 1..=sizes.largest())
            .map(|size| (sizes.share_up_to(size) - sizes.share_up_to(size - 1)) * size as f64)
            .sum();
        prop_assert!((above / mean - sizes.share_of_bytes_above(half)).abs() < 1e-9);
    }
    #[test]
    fn any_table_is_read_or_refused(text in "[a-z_0-9.,\n]{0,200}") {
        let _ = read(&text);
        let _ = read(&format!("size_bytes,cdf\n{text}"));
    }
}
