//! The end of `weir reproduce --help`.

pub(super) const TEXT: &str = "\
Examples:
  weir reproduce --list
  weir reproduce parley-fig14
  weir reproduce parley-fig4 parley-fig5 --json
  weir reproduce parley-table3 --full --report out/table3
  weir reproduce parley-fig14 --backend both --report out/fig14
  weir reproduce --all --write docs/reference/results.md

The quick setting of each experiment ends within a minute on two cores; --full runs what its file
under papers/ calls full. All runs of all experiments share the cores. Ctrl-C keeps the
measurements until then.

Values are means over seeds. `agrees` means that a value meets its expectation: the published one
within a tolerance, on the right side of it, or in a relation to another value; a value without an
expectation has no verdict. Values that no text of the source contains have no published number.

With --json, one object for each experiment and backend: {\"id\", \"backend\": \"sim\" or \"lab\",
\"setting\", \"seed\", \"complete\", \"rows\": [{\"metric\", \"unit\", \"published\", \"measured\",
\"where\", \"expected\", \"verdict\", \"note\"}], \"wall_s\"}; `published` is null where the source
prints no number, `measured` where the run did not reach it. With \"measured_is_at_least\": true
in a row it is a lower bound; \"failures\" names the failed runs with the reasons.

The lab needs root and executes the runs of an experiment that it supports (parley-fig14 at 1/100
of its speeds); with `--backend both` and without root, the simulator runs alone.

The exit code is 1 when a value does not meet its expectation, and when files of the report cannot
be written: those of other runs and experiments are written all the same.";
