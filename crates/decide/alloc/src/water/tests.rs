use super::*;
use proptest::prelude::*;

fn vessel(lower: u64, upper: u64, weight: u32) -> Vessel {
    Vessel { lower, upper, weight }
}

fn bounds(vessels: &[Vessel]) -> (u128, u128) {
    vessels.iter().fold((0, 0), |(l, u), v| (l + u128::from(v.lower), u + u128::from(v.upper)))
}

fn level_of(vessels: &[Vessel], amount: u64) -> Level {
    level(vessels, |v| *v, bounds(vessels), amount, &mut Vec::new())
}

fn holds(vessels: &[Vessel], amount: u64, level: Level) -> bool {
    Poured::measure(vessels, 0, level).against(amount, level).is_eq()
}

#[test]
fn worked_example() {
    // 9 into rims 1, 3, 9: guess 3 holds 7; rims 1 and 3 settle; 9 − 4 = 5 over weight 1.
    let vessels = [vessel(0, 1, 1), vessel(0, 3, 1), vessel(0, 9, 1)];
    assert_eq!(level_of(&vessels, 9), Level { numerator: 5, denominator: 1 });
}

#[test]
fn floors_push_the_level_down() {
    // 10 into floor 6 and none: guess 5 holds 6 + 5 = 11; the floor settles; 4 remains for the
    // other.
    let vessels = [vessel(6, 10, 1), vessel(0, 10, 1)];
    assert_eq!(level_of(&vessels, 10), Level { numerator: 4, denominator: 1 });
}

#[test]
fn rims_that_settle_one_at_a_guess_end_in_halving() {
    // Rim k sits just below the guess that is made once the k smaller ones are full, so each guess
    // settles one.
    let mut rims: Vec<u64> = Vec::new();
    let (n, mut left) = (200u64, 1u64 << 50);
    let amount = left;
    for k in 0..n - 1 {
        let rim = left / (n - k);
        rims.push(rim);
        left -= rim;
    }
    rims.push(1 << 55);
    let vessels: Vec<Vessel> = rims.iter().map(|rim| vessel(0, *rim, 1)).collect();
    let found = level_of(&vessels, amount);
    assert!(holds(&vessels, amount, found), "{found:?}");
}

#[test]
fn a_sample_that_misleads_is_noticed() {
    // Every sampled vessel is empty; all the room is in the others.
    let stride = 8 * SAMPLE / SAMPLE;
    let vessels: Vec<Vessel> =
        (0..8 * SAMPLE).map(|i| if i % stride == 0 { vessel(0, 0, 1) } else { vessel(0, 1000, 1) }).collect();
    for amount in [1, 7 * SAMPLE as u64 * 500, 7 * SAMPLE as u64 * 999] {
        let found = level_of(&vessels, amount);
        assert!(holds(&vessels, amount, found), "{amount}: {found:?}");
    }
}

fn vessels(size: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Vessel>> {
    let one = (0u64..60_000, 0u64..60_000, 1u32..5).prop_map(|(a, b, w)| vessel(a.min(b), a.max(b), w));
    proptest::collection::vec(one, size)
}

proptest! {
    /// All ways to the level describe the same filling, and it holds exactly the amount.
    #[test]
    fn halving_and_guessing_agree(vessels in vessels(1..12), part in 0u128..=100) {
        let (low, high) = bounds(&vessels);
        let amount = (low + (high - low) * part / 100) as u64;
        let guessed = level_of(&vessels, amount);
        let halved = halve(&vessels, amount, 0, Level { numerator: 0, denominator: 1 });
        prop_assert!(holds(&vessels, amount, guessed), "{guessed:?} does not hold {amount}");
        prop_assert!(holds(&vessels, amount, halved), "{halved:?} does not hold {amount}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// The bracket from a sample does not change the answer.
    #[test]
    fn bracketing_and_solving_agree(vessels in vessels(MANY..MANY + 600), part in 0u128..=100) {
        let (low, high) = bounds(&vessels);
        let amount = (low + (high - low) * part / 100) as u64;
        let bracketed = level_of(&vessels, amount);
        let solved = solve(&mut vessels.clone(), amount, 0);
        prop_assert!(holds(&vessels, amount, bracketed), "{bracketed:?} does not hold {amount}");
        prop_assert!(holds(&vessels, amount, solved), "{solved:?} does not hold {amount}");
    }
}
