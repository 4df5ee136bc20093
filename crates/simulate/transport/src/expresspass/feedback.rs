//! The rate of one flow's credits.
//!
//! Problem: the number of credits that the ports between a receiver and a sender can pass is unknown. Approach: the
//! flow's data returns the numbers of the credits that arrived, so gaps are losses. Once per round trip, with `most`
//! the rate at which the receiver's own link passes credits:
//!
//! - at most the target loss: rate ← (1 − w)·rate + w·most, and from the second such period in a row w grows before;
//! - more: rate ← returned·(1 + target), at most as before, and w ← max(w / 2, w-min).
//!
//! The rate is at least one credit per round trip. Two laws differ in the rest:
//!
//! | | target | w grows to | increase |
//! |---|---|---|---|
//! | the authors' simulator | `target-loss`·(1 − rate / most) | min(w + 0.05, w-max) | towards most |
//! | Algorithm 1 of the paper | `target-loss` | (w + w-max) / 2 | towards most·(1 + target) |
//!
//! The simulator's target is the default: a fast flow yields at any loss and a slow one does not, so that rates
//! become equal. With one target for all, a fast flow stays fast while its credits find more room in a queue than
//! others' do (`tests/expresspass.rs`). The paper writes rate·(1 − loss) for what returned; that would count a loss
//! twice, since the credits of the round trip before a decrease return after it.
//!
//! Example of Algorithm 1, with most 1, rate 0.5, w 0.5 and target 0.1: no loss, so 0.5·0.5 + 0.5·1.1 = 0.8, then 0.95.
//! Half of the credits is lost: 0.475·1.1 = 0.5225, and w is 0.25. The simulator's law, with target 0.125: 0.75, then
//! 0.875; then the target is 0.015625, and half of the credits lost gives 0.4375·1.015625 = 0.444.
//!
//! Source: ExpressPass (SIGCOMM 2017), Algorithm 1; github.com/kaist-ina/ns2-xpass (`credit_feedback_control`). See the
//! parent module for what is verified.

use super::{Credit, Parameters};
use weir_units::SimTime;

/// Picoseconds in a second.
const SECOND: f64 = 1e12;
/// The growth of w in the authors' simulator.
const STEP: f64 = 0.05;

/// The rate of a flow's credits and its adaptation. Rates are in bit/s of credits.
///
/// Call [`Feedback::on_return`] for each segment that returns a credit and [`Feedback::update`] before each credit;
/// [`Feedback::interval`] is the mean time to the next one.
#[derive(Debug, Clone)]
pub(super) struct Feedback {
    rate: f64,
    w: f64,
    /// The last period had little loss.
    increased: bool,
    /// The smoothed round trip; zero before the first credit returns.
    round_trip: SimTime,
    /// The start of this period.
    since: SimTime,
    /// The number of the next credit to return.
    expected: u32,
    /// The credits of this period that returned, and those that did not.
    returned: u32,
    lost: u32,
}

impl Feedback {
    /// The rate of a new flow: `alpha` of `most`.
    pub(super) fn new(now: SimTime, parameters: &Parameters, most: f64) -> Self {
        Self {
            rate: parameters.alpha * most,
            w: parameters.w_init,
            increased: false,
            round_trip: SimTime::ZERO,
            since: now,
            expected: 0,
            returned: 0,
            lost: 0,
        }
    }

    /// A credit returned.
    pub(super) fn on_return(&mut self, now: SimTime, credit: &Credit) {
        let sample = now.saturating_sub(credit.sent);
        self.round_trip = match self.round_trip.picos() {
            0 => sample,
            // As the authors' simulator: a fifth of each sample.
            before => SimTime::from_picos(before - before / 5 + sample.picos() / 5),
        };
        let ahead = credit.number.wrapping_sub(self.expected);
        if ahead > u32::MAX / 2 {
            // Overtaken by a later one, and counted as lost.
            self.lost = self.lost.saturating_sub(1);
        } else {
            self.lost = self.lost.saturating_add(ahead);
            self.expected = credit.number.wrapping_add(1);
        }
        self.returned = self.returned.saturating_add(1);
    }

    /// Adapts the rate if a period is over and credits returned in it. `most` is the rate at which the receiver's link
    /// passes credits.
    pub(super) fn update(&mut self, now: SimTime, parameters: &Parameters, most: f64) {
        let elapsed = now.saturating_sub(self.since);
        if self.round_trip == SimTime::ZERO || elapsed < self.round_trip || self.returned == 0 {
            return;
        }
        let bits = f64::from(parameters.credit) * 8.0;
        let (returned, lost) = (f64::from(self.returned), f64::from(self.lost));
        let law = parameters.simulator_law;
        let unused = if law { (1.0 - self.rate / most).max(0.0) } else { 1.0 };
        let target = parameters.target_loss * unused;
        let most = if law { most } else { most * (1.0 + target) };
        if lost <= target * (returned + lost) {
            if self.increased {
                let grown = if law { self.w + STEP } else { (self.w + parameters.w_max) / 2.0 };
                self.w = grown.min(parameters.w_max);
            }
            self.increased = true;
            self.rate = (1.0 - self.w) * self.rate + self.w * most;
        } else {
            let arrived = returned * bits * SECOND / elapsed.picos() as f64;
            self.rate = self.rate.min(arrived * (1.0 + target));
            self.w = (self.w / 2.0).max(parameters.w_min);
            self.increased = false;
        }
        let least = bits * SECOND / self.round_trip.picos() as f64;
        // The link may have become slower, and slower than the least.
        self.rate = self.rate.max(least).min(most);
        (self.since, self.returned, self.lost) = (now, 0, 0);
    }

    /// The mean time between credits.
    pub(super) fn interval(&self, parameters: &Parameters) -> f64 {
        f64::from(parameters.credit) * 8.0 * SECOND / self.rate
    }

    #[cfg(test)]
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: SimTime = SimTime::from_millis(100);
    /// A credit of 84 B every millisecond.
    const MOST: f64 = 672_000.0;

    /// A flow's rate and the number of its next credit.
    struct Flow {
        parameters: Parameters,
        feedback: Feedback,
        number: u32,
        now: SimTime,
    }

    impl Flow {
        fn new(parameters: Parameters) -> Self {
            let feedback = Feedback::new(SimTime::ZERO, &parameters, MOST);
            Self { parameters, feedback, number: 0, now: SimTime::ZERO }
        }
        /// A round trip in which `returned` credits come back, each behind `lost` ones that do not. Returns the rate as
        /// a part of the most.
        fn period(&mut self, returned: u32, lost: u32) -> f64 {
            for _ in 0..returned {
                self.number += lost;
                let credit = Credit { number: self.number, sent: self.now, released: Credit::NO_PORT };
                self.feedback.on_return(self.now + ROUND_TRIP, &credit);
                self.number += 1;
            }
            self.now += ROUND_TRIP;
            self.feedback.update(self.now, &self.parameters, MOST);
            self.feedback.rate() / MOST
        }
    }

    /// Algorithm 1 of the paper.
    fn paper() -> Parameters {
        Parameters { simulator_law: false, target_loss: 0.1, ..Parameters::default() }
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn the_example_of_algorithm_1() {
        let mut flow = Flow::new(Parameters { alpha: 0.5, w_init: 0.5, ..paper() });
        let rates = [flow.period(50, 0), flow.period(80, 0)];
        assert!(close(rates[0], 0.8) && close(rates[1], 0.95), "{rates:?}");
        // 47.5 of 95 credits return: a rate of 0.475.
        let decreased = flow.period(47, 1);
        assert!(close(decreased, 0.47 * 1.1), "{decreased}");
        assert!(close(flow.feedback.w, 0.25));
        // The first period with little loss keeps w, the second raises it.
        flow.period(50, 0);
        assert!(close(flow.feedback.w, 0.25));
        flow.period(50, 0);
        assert!(close(flow.feedback.w, 0.375));
    }

    #[test]
    fn the_example_of_the_simulators_law() {
        let mut flow = Flow::new(Parameters { alpha: 0.5, w_init: 0.5, ..Parameters::default() });
        let rates = [flow.period(50, 0), flow.period(75, 0)];
        assert!(close(rates[0], 0.75) && close(rates[1], 0.875), "{rates:?}");
        let decreased = flow.period(44, 1);
        assert!(close(decreased, 0.44 * 1.015625), "{decreased}");
        // w grows by 0.05 from the second period on.
        flow.period(40, 0);
        flow.period(60, 0);
        assert!(close(flow.feedback.w, 0.3));
    }

    /// A twentieth is lost: a flow at a tenth of the most tolerates it, one at nine tenths does not.
    #[test]
    fn slow_flows_tolerate_more_loss_than_fast_ones() {
        for (alpha, grows) in [(0.1, true), (0.9, false)] {
            let mut flow = Flow::new(Parameters { alpha, ..Parameters::default() });
            flow.number = 1;
            let after = flow.period(19, 0);
            assert_eq!(after > alpha, grows, "{after}");
        }
    }

    #[test]
    fn the_target_loss_is_no_congestion() {
        let mut flow = Flow::new(paper());
        let before = flow.feedback.rate() / MOST;
        // A tenth is lost.
        flow.number += 1;
        let after = flow.period(9, 0);
        assert!(after > before, "{before} {after}");
        flow.number += 2;
        assert!(flow.period(9, 0) < after);
    }

    #[test]
    fn the_rate_stays_between_a_credit_per_round_trip_and_the_most() {
        let mut flow = Flow::new(Parameters::default());
        for _ in 0..200 {
            flow.period(100, 0);
        }
        assert!(close(flow.feedback.rate() / MOST, 1.0));
        let mut flow = Flow::new(paper());
        for _ in 0..200 {
            flow.period(100, 0);
        }
        assert!(close(flow.feedback.rate() / MOST, 1.1));
        for _ in 0..200 {
            flow.period(1, 50);
        }
        // One credit per 100 ms, a hundredth of the most, and a tenth more.
        assert!(close(flow.feedback.rate() / MOST, 0.011));
        assert!(close(flow.feedback.w, 0.01));
        let silent = flow.feedback.rate();
        flow.period(0, 0);
        assert!(close(flow.feedback.rate(), silent));
    }

    #[test]
    fn a_late_credit_is_no_loss() {
        let mut flow = Flow::new(Parameters::default());
        let credit = |number| Credit { number, sent: SimTime::ZERO, released: Credit::NO_PORT };
        for number in [0, 2, 1, 3] {
            flow.feedback.on_return(ROUND_TRIP, &credit(number));
        }
        assert_eq!((flow.feedback.returned, flow.feedback.lost), (4, 0));
        flow.feedback.expected = u32::MAX;
        flow.feedback.on_return(ROUND_TRIP, &credit(u32::MAX));
        flow.feedback.on_return(ROUND_TRIP, &credit(1));
        assert_eq!((flow.feedback.lost, flow.feedback.expected), (1, 2));
    }
}
