//! Units, ticks and positions on an axis.
//!
//! Problem: an axis in bit/s should have ticks `0 200 400 600` and the unit `Mb/s` once. Approach:
//! one prefix for the whole axis, chosen by its largest value, and ticks at multiples of 1, 2 or 5
//! times a power of ten of that unit.
//!
//! Worked example: values up to 612 000 000 b/s are drawn in Mb/s, with ticks every 200 up to 800
//! if there is space for five steps.
//!
//! A logarithmic axis has ticks at powers of ten; at 1 and 3, or at 1, 2 and 5 times these if there
//! is space. Each tick has its own unit, since one axis may range from microseconds to seconds. If
//! the range is less than a factor of five, the ticks are those of a linear axis.

/// The unit of an axis. Values are always in the base unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    /// Bit/s; drawn with a suitable prefix.
    Bandwidth,
    /// Seconds; drawn as ns, µs, ms or s.
    Time,
    /// Bytes; drawn with a suitable prefix.
    Size,
    /// Another unit, drawn without a prefix; the text may be empty.
    Plain(String),
}

impl Unit {
    /// The factor and name of the unit in which values up to `largest` are drawn.
    pub(crate) fn prefix(&self, largest: f64) -> (f64, String) {
        let prefixes: &[(f64, &str)] = match self {
            Self::Bandwidth => &[(1e12, "Tb/s"), (1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1.0, "b/s")],
            Self::Time => &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")],
            Self::Size => &[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")],
            Self::Plain(name) => return (1.0, name.clone()),
        };
        let fitting = prefixes.iter().find(|(factor, _)| largest >= *factor);
        let smallest = &prefixes[prefixes.len() - 1];
        // All values are zero: use the base unit.
        let (factor, name) = if largest > 0.0 { fitting.unwrap_or(smallest) } else { &(1.0, self.base()) };
        (*factor, (*name).to_owned())
    }

    fn base(&self) -> &'static str {
        match self {
            Self::Bandwidth => "b/s",
            Self::Time => "s",
            Self::Size => "B",
            Self::Plain(_) => "",
        }
    }

    /// A value with its unit, with at most three decimals: `299.4 Mb/s`.
    pub fn format(&self, value: f64) -> String {
        // 999.9996 Mb/s is rounded to 1 Gb/s.
        let (factor, name) = self.prefix(value.abs() * (1.0 + 0.5e-6));
        let text = number(value / factor, 3);
        if name.is_empty() { text } else { format!("{text} {name}") }
    }

    /// A value with its unit, with at most four significant digits, for tables that are compared
    /// visually: `18.11 ms`, `836.3 µs`.
    pub fn format_short(&self, value: f64) -> String {
        // 999.96 µs is rounded to 1 ms.
        let (factor, name) = self.prefix(value.abs() * (1.0 + 0.5e-4));
        let value = value / factor;
        let decimals = if value == 0.0 { 0 } else { (3 - value.abs().log10().floor() as i32).clamp(0, 9) };
        let text = number(value, decimals as usize);
        if name.is_empty() { text } else { format!("{text} {name}") }
    }
}

/// A number with at most `decimals` decimals and without trailing zeros.
pub(crate) fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// The range and ticks of one axis.
#[derive(Debug, Clone)]
pub(crate) struct Scale {
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// The value of each tick (in base units) with its text.
    pub(crate) ticks: Vec<(f64, String)>,
    /// The unit of the ticks; empty if each tick has its own unit.
    pub(crate) unit: String,
    log: bool,
}

/// The factor below which a logarithmic axis has linear ticks.
const NARROW: f64 = 5.0;

impl Scale {
    /// A scale over `from..=to` with at most `count` steps. `widen`: the end moves to a tick.
    pub(crate) fn new(unit: &Unit, (from, to): (f64, f64), count: usize, widen: bool) -> Self {
        // An empty range is widened, so that it can be drawn.
        let to = if to > from { to } else { from + 1.0 };
        let (factor, name) = unit.prefix(from.abs().max(to.abs()));
        // Percentages are also divided in quarters.
        let quarters = matches!(unit, Unit::Plain(name) if name == "%");
        let step = step((to - from) / factor, count, quarters);
        let decimals = (0..12).find(|d| is_whole(step * 10f64.powi(*d))).unwrap_or(12) as usize;
        let first = (from / factor / step).ceil();
        let last = if widen { (to / factor / step - 1e-9).ceil() } else { (to / factor / step + 1e-9).floor() };
        let ticks = (0..=(last - first).max(0.0) as usize)
            .map(|i| (first + i as f64) * step)
            .map(|tick| (tick * factor, number(tick, decimals)))
            .collect();
        Self { from, to: if widen { last * step * factor } else { to }, ticks, unit: name, log: false }
    }

    /// A logarithmic scale over `from..=to`. `widen`: both ends move to 1, 2 or 5 times a power of
    /// ten.
    pub(crate) fn log(unit: &Unit, (from, to): (f64, f64), count: usize, widen: bool) -> Self {
        let to = if to > 0.0 { to } else { 10.0 };
        let from = if from > 0.0 && from <= to { from } else { to / 10.0 };
        if to / from < NARROW {
            // A range of equal values is widened, so that it can be drawn.
            let to = if to / from < 1.0 + 1e-9 { from * 2.0 } else { to };
            let linear = Self::new(unit, (from, to), count, widen);
            // The start moves to a tick as well: a line that rises at the start would look like the
            // axis.
            let below = match linear.ticks[..] {
                [(first, _), (second, _), ..] if widen && first > from && 2.0 * first > second => 2.0 * first - second,
                _ => from,
            };
            return Self { log: true, ..Self::new(unit, (below, to), count, widen) };
        }
        let decades = (from.log10().floor() as i32 - 1)..=(to.log10().ceil() as i32 + 1);
        // Parsed, because a multiplication may give the float next to 5e-6.
        let tick = |mantissa: u32, decade: i32| format!("{mantissa}e{decade}").parse::<f64>().unwrap_or(1.0);
        let fine: Vec<f64> =
            decades.clone().flat_map(|decade| [1, 2, 5].map(|mantissa| tick(mantissa, decade))).collect();
        let (from, to) = if widen {
            let below = fine.iter().rev().find(|tick| **tick <= from * (1.0 + 1e-9)).copied().unwrap_or(from);
            let above = fine.iter().find(|tick| **tick >= to * (1.0 - 1e-9)).copied().unwrap_or(to);
            (below, above)
        } else {
            (from, to)
        };
        let inside = |tick: &f64| *tick >= from * (1.0 - 1e-9) && *tick <= to * (1.0 + 1e-9);
        let mut ticks: Vec<f64> = fine.into_iter().filter(inside).collect();
        if ticks.len() > count + 1 {
            let some = decades.clone().flat_map(|decade| [1, 3].map(|mantissa| tick(mantissa, decade)));
            ticks = some.filter(inside).collect();
        }
        let mut every = 1;
        while ticks.len() > count + 1 {
            let wanted = decades.clone().filter(|decade| decade.rem_euclid(every) == 0);
            ticks = wanted.map(|decade| tick(1, decade)).filter(inside).collect();
            every += 1;
        }
        let (text, name): (fn(&Unit, f64) -> String, String) = match unit {
            Unit::Plain(name) => (|_, value| plain(value), name.clone()),
            _ => (Unit::format, String::new()),
        };
        let ticks = ticks.into_iter().map(|tick| (tick, text(unit, tick))).collect();
        Self { from, to, ticks, unit: name, log: true }
    }

    /// The position of `value`, between 0 and 1.
    pub(crate) fn place(&self, value: f64) -> f64 {
        if self.log {
            return (value.max(self.from) / self.from).ln() / (self.to / self.from).ln();
        }
        (value - self.from) / (self.to - self.from)
    }
}

/// A number on an axis that may extend over many powers of ten.
fn plain(value: f64) -> String {
    if (1e-4..1e6).contains(&value) { number(value, 9) } else { format!("{value:e}") }
}

/// The smallest of 1, 2, 5 × 10^n (and 2.5 where `quarters`) that divides `range` into at most
/// `count` steps.
fn step(range: f64, count: usize, quarters: bool) -> f64 {
    let least = range / count.max(1) as f64;
    let power = 10f64.powf(least.log10().floor());
    let round: &[f64] = if quarters { &[1.0, 2.0, 2.5, 5.0] } else { &[1.0, 2.0, 5.0] };
    let factor = round.iter().copied().find(|factor| factor * power >= least * (1.0 - 1e-9)).unwrap_or(10.0);
    factor * power
}

fn is_whole(value: f64) -> bool {
    (value - value.round()).abs() < 1e-6 * value.abs().max(1e-9)
}

/// A whole number with thousands separators: `20,000`.
pub fn whole(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_numbers_in_the_axis_unit() {
        let scale = Scale::new(&Unit::Bandwidth, (0.0, 612e6), 5, true);
        assert_eq!(
            (texts(&scale), scale.unit.as_str(), scale.to),
            (vec!["0", "200", "400", "600", "800"], "Mb/s", 800e6)
        );
        let scale = Scale::new(&Unit::Time, (0.0, 60.0), 6, false);
        assert_eq!(texts(&scale), ["0", "10", "20", "30", "40", "50", "60"]);
        let scale = Scale::new(&Unit::Time, (0.0, 350e-6), 8, false);
        assert_eq!(
            (texts(&scale), scale.unit.as_str()),
            (vec!["0", "50", "100", "150", "200", "250", "300", "350"], "µs")
        );
        let scale = Scale::new(&Unit::Plain(String::new()), (0.0, 1.0), 5, true);
        assert_eq!(texts(&scale), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        let scale = Scale::new(&Unit::Plain("%".to_owned()), (0.0, 100.0), 4, false);
        assert_eq!(texts(&scale), ["0", "25", "50", "75", "100"]);
        let scale = Scale::new(&Unit::Time, (20.0, 41.5), 5, false);
        assert_eq!(texts(&scale), ["20", "25", "30", "35", "40"]);
    }

    #[test]
    fn logarithmic_ticks_are_powers_of_ten_with_subdivisions() {
        let scale = Scale::log(&Unit::Time, (3e-6, 0.7), 10, true);
        assert_eq!(texts(&scale), ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"]);
        assert_eq!((scale.from, scale.to, scale.unit.as_str()), (2e-6, 1.0, ""));
        let scale = Scale::log(&Unit::Plain("times".into()), (1.0, 43.0), 8, true);
        assert_eq!((texts(&scale), scale.unit.as_str()), (vec!["1", "2", "5", "10", "20", "50"], "times"));
        assert_eq!([1.0, 50.0, 0.0].map(|value| scale.place(value)), [0.0, 1.0, 0.0]);
        assert!((scale.place(50f64.sqrt()) - 0.5).abs() < 1e-12);
        let scale = Scale::log(&Unit::Time, (8e-6, 1.4e-3), 5, true);
        assert_eq!(texts(&scale), ["10 µs", "30 µs", "100 µs", "300 µs", "1 ms"]);
        let scale = Scale::log(&Unit::Plain(String::new()), (1e-12, 1e12), 6, false);
        assert_eq!(texts(&scale), ["1e-12", "1e-8", "0.0001", "1", "10000", "1e8", "1e12"]);
        let scale = Scale::log(&Unit::Plain(String::new()), (1.0, 1.8), 5, true);
        assert_eq!(texts(&scale), ["1", "1.2", "1.4", "1.6", "1.8"]);
        let scale = Scale::log(&Unit::Time, (10.1e-3, 19.4e-3), 6, true);
        assert_eq!((texts(&scale), scale.from), (vec!["10", "12", "14", "16", "18", "20"], 10e-3));
        for range in [(0.0, 0.0), (7.0, 7.0), (-3.0, 5.0), (f64::NAN, f64::NAN)] {
            let scale = Scale::log(&Unit::Time, range, 5, true);
            assert!(scale.from > 0.0 && scale.to > scale.from && !scale.ticks.is_empty(), "{scale:?}");
        }
    }

    #[test]
    fn empty_range_has_a_valid_scale() {
        let scale = Scale::new(&Unit::Bandwidth, (0.0, 0.0), 5, true);
        assert!(scale.to > scale.from && scale.unit == "b/s");
    }

    #[test]
    fn single_values_are_formatted_with_a_suitable_unit() {
        assert_eq!(Unit::Bandwidth.format(299_412_345.0), "299.412 Mb/s");
        assert_eq!(Unit::Time.format(0.000_2), "200 µs");
        assert_eq!(Unit::Plain("%".into()).format(12.5), "12.5 %");
        assert_eq!(Unit::Bandwidth.format(0.0), "0 b/s");
        let short = [836.333e-6, 18.113e-3, 999.97e-6, 1.0, 1234.5678, 0.0].map(|value| Unit::Time.format_short(value));
        assert_eq!(short, ["836.3 µs", "18.11 ms", "1 ms", "1 s", "1235 s", "0 s"]);
        assert_eq!(Unit::Plain(String::new()).format_short(0.012_345_6), "0.01235");
    }
}
