//! The command line.

/// The options of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    /// Tests whose name (`weir/agent sigterm_leaves_...`) contains one of these words; all where there is none.
    pub(crate) words: Vec<String>,
    /// Real-time tests run.
    pub(crate) realtime: bool,
    /// All other tests run.
    pub(crate) pure: bool,
    /// All tests run in full, real-time tests one by one after all else.
    pub(crate) soak: bool,
    /// How often the real-time tests run.
    pub(crate) repeat: u32,
    /// Processes that each keep one processor busy meanwhile.
    pub(crate) busy: u32,
    /// The sum of loads of the real-time tests that run at the same time, in percent of a processor.
    pub(crate) budget: u32,
    /// Shell commands that run beside the tests after all builds.
    pub(crate) beside: Vec<String>,
    /// Where a table of real-time tests with measured loads is written to.
    pub(crate) measured: Option<String>,
}

/// For each processor, in percent. The other quarter is for what tests use beyond their average:
/// tests that start together compile BPF programs at the same moment. A program that keeps one
/// processor busy leaves them nine tenths of it, because they run at a higher priority.
const BUDGET: u32 = 75;

/// The processors of this machine.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

pub(crate) const USAGE: &str = "\
Usage: weir-test-runner [OPTIONS] [WORD...]

Builds and runs the workspace's tests whose name (PACKAGE/BINARY TEST) contains a WORD, or all.

  --realtime         only the tests of tools/realtime-tests
  --pure             only the others
  --soak             all in full: without WEIR_QUICK=1, and the real-time tests one by one after all else
  --repeat N         run the real-time tests N times
  --busy N           N other programs keep one processor busy each meanwhile
  --budget PERCENT   processors that real-time tests may use together (100: one)
  --beside COMMAND   run a shell command beside the tests after all builds; may be given again
  --measured FILE    write the table of real-time tests with the loads and times of this run";

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            words: Vec::new(),
            realtime: true,
            pure: true,
            soak: false,
            repeat: 1,
            busy: 0,
            budget: BUDGET * u32::try_from(processors()).unwrap_or(1),
            beside: Vec::new(),
            measured: None,
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().cloned().ok_or(format!("error: {argument} needs a value\n{USAGE}"));
            let number =
                |text: String| text.parse().map_err(|_| format!("error: {argument}: {text} is not a number\n{USAGE}"));
            match argument.as_str() {
                "--realtime" => options.pure = false,
                "--pure" => options.realtime = false,
                "--soak" => options.soak = true,
                "--repeat" => options.repeat = number(value()?)?,
                "--busy" => options.busy = number(value()?)?,
                "--budget" => options.budget = number(value()?)?,
                "--beside" => options.beside.push(value()?),
                "--measured" => options.measured = Some(value()?),
                word if !word.starts_with('-') => options.words.push(word.to_owned()),
                "--help" | "-h" => return Err(USAGE.to_owned()),
                unknown => return Err(format!("error: no option {unknown}\n{USAGE}")),
            }
        }
        if !options.realtime && !options.pure {
            return Err("error: --realtime and --pure exclude each other".to_owned());
        }
        Ok(options)
    }

    /// Whether the words select this test, or any of a binary where its tests are not known.
    pub(crate) fn selects(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_and_words_stand_in_any_order() {
        let options = parse("agent --realtime --repeat 10 lab --busy 1").unwrap();
        assert_eq!(
            (options.words.as_slice(), options.repeat, options.busy),
            (&["agent".into(), "lab".into()][..], 10, 1)
        );
        assert!(options.realtime && !options.pure && options.budget >= BUDGET);
        assert!(options.selects("weir/lab a_test") && !options.selects("weir/ecn a_test"));
    }

    #[test]
    fn wrong_options_are_refused() {
        for (text, part) in [
            ("--repeat", "needs a value"),
            ("--repeat x", "x is not a number"),
            ("--fast", "no option --fast"),
            ("--pure --realtime", "exclude each other"),
        ] {
            assert!(parse(text).unwrap_err().contains(part), "{text}");
        }
    }
}
