//! A link divided among queues by weight, exactly.
//!
//! Problem: weighted fair queueing gives every queue its part of a link, and divides what a queue does not use among
//! the others. Approach, for queues as flows: queues by demand over weight; each has the lesser of its demand and of
//! the remaining capacity in proportion to its weight.
//!
//! Example: 10 Gb/s, weights 1, 4 and 5, demands without bound, of 2 and of 0: the third has nothing, the second its
//! 2, the first 8 Gb/s.
//!
//! Source: QShare §III (weighted fair queues slice a link; it is full as long as one tenant has demand).

/// A queue as a flow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Queue {
    /// Its weight, more than 0 if it has a demand.
    pub weight: f64,
    /// Its demand, bit/s; infinity without bound.
    pub demand: f64,
}

/// The bandwidth of each queue of a link with this capacity, bit/s.
pub fn fair(capacity: f64, queues: &[Queue]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..queues.len()).filter(|at| queues[*at].demand > 0.0).collect();
    let per_weight = |at: &usize| queues[*at].demand / queues[*at].weight;
    order.sort_by(|one, other| per_weight(one).total_cmp(&per_weight(other)));
    let mut weights: f64 = order.iter().map(|at| queues[*at].weight).sum();
    let (mut left, mut shares) = (capacity, vec![0.0; queues.len()]);
    for at in order {
        let Queue { weight, demand } = queues[at];
        shares[at] = demand.min(left * (weight / weights).min(1.0));
        left = (left - shares[at]).max(0.0);
        weights -= weight;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: f64 = f64::INFINITY;

    fn shares(capacity: f64, queues: &[(f64, f64)]) -> Vec<f64> {
        let queues: Vec<Queue> = queues.iter().map(|&(weight, demand)| Queue { weight, demand }).collect();
        fair(capacity, &queues)
    }

    #[test]
    fn the_worked_example() {
        assert_eq!(shares(10.0, &[(1.0, ALL), (4.0, 2.0), (5.0, 0.0)]), [8.0, 2.0, 0.0]);
    }

    /// QShare Figure 4a at 940 Mb/s: ten tenants of 94, of which three share a queue and have their guarantees.
    #[test]
    fn figure_4a() {
        let near = |found: &[f64], level: f64| assert!(found.iter().all(|share| (share - level).abs() < 1e-9));
        // T1 to T5 alone.
        let mut queues = vec![(94.0, ALL); 5];
        queues.extend([(94.0, 0.0), (94.0, 0.0), (282.0, 0.0)]);
        near(&shares(940.0, &queues)[..5], 188.0);
        // T6 and the shared queue.
        (queues[5].1, queues[7].1) = (ALL, 282.0);
        let found = shares(940.0, &queues);
        near(&found[..6], 658.0 / 6.0);
        near(&found[7..], 282.0);
    }

    proptest! {
        #[test]
        fn the_link_is_full_and_no_queue_has_less_than_its_part(
            capacity in 1.0f64..1e11,
            queues in prop::collection::vec(
                (1.0f64..1e10, prop_oneof![Just(0.0), Just(ALL), 0.0f64..2e10]),
                1..12,
            ),
        ) {
            let found = shares(capacity, &queues);
            let demand: f64 = queues.iter().map(|(_, demand)| demand).sum();
            let (sum, most) = (found.iter().sum::<f64>(), demand.min(capacity));
            prop_assert!((sum - most).abs() <= 1e-9 * capacity, "{sum} of {most}");
            let weights: f64 = queues.iter().map(|(weight, _)| weight).sum();
            for ((weight, demand), share) in queues.iter().zip(&found) {
                prop_assert!(*share <= *demand);
                prop_assert!(*share >= demand.min(capacity * weight / weights) * (1.0 - 1e-9));
            }
        }
    }
}
