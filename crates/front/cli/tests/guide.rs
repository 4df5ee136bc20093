//! The guide to the simulator prints what the program prints: its scenarios are run, and its tables
//! compared line by line.

mod program;

use program::{directory, file, run, text};

const GUIDE: &str = include_str!("../../../../docs/how-to/simulator.md");

/// The blocks of the guide in this language, without the indentation of the lists that they stand in.
fn blocks(language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, bool, String)> = None;
    for line in GUIDE.lines() {
        let indentation = line.len() - line.trim_start().len();
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(of), None) => open = Some((indentation, of == language, String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take().filter(|block| block.1).map(|block| block.2)),
            (None, Some((indentation, _, block))) => {
                block.push_str(line.get(*indentation..).unwrap_or_default());
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

#[test]
fn the_guide_prints_the_output_of_the_program() {
    let directory = directory();
    let [dumbbell, leafspine] = &blocks("yaml")[..] else { panic!("two scenarios") };
    let misspelt = dumbbell.replace("{ discipline", "{ disciplne");
    let dumbbell = file(directory.path(), "my.scenario.yaml", dumbbell);
    let leafspine = file(directory.path(), "leafspine.scenario.yaml", leafspine);
    let output = |arguments: &[&str]| {
        let output = run(arguments);
        let printed = format!("{}{}", text(&output.stderr), text(&output.stdout));
        printed.replace(&format!("{}/", directory.path().display()), "")
    };
    let incast = output(&["sim", "scenarios/incast.scenario.yaml"]);
    let leafspine = output(&["sim", &leafspine]);
    let dumbbell = output(&["sim", &dumbbell]);
    let refused = output(&["sim", &file(directory.path(), "my.scenario.yaml", &misspelt), "--check"]);

    let [first, error, slowdowns, _sweep] = &blocks("")[..] else { panic!("four outputs") };
    assert_eq!(error.trim_end(), refused.trim_end());
    // Speeds differ from machine to machine, and the guide leaves out the rest after an ellipsis.
    let comparable =
        |line: &&str| !["", "..."].contains(line) && !line.contains(" simulated in ") && !line.contains("report: ");
    for (block, printed) in [(first, &incast), (slowdowns, &leafspine)] {
        for line in block.lines().filter(comparable) {
            assert!(printed.lines().any(|other| other == line), "`{line}` is not in\n{printed}");
        }
    }
    for (figure, printed) in [("simulates 136.4 ms", &leafspine), ("gets 9.28 Gb/s", &dumbbell)] {
        let value = figure.split_once(' ').expect("a word and a value").1;
        assert!(GUIDE.contains(figure) && printed.contains(value), "{value} is not in\n{printed}");
    }
}
