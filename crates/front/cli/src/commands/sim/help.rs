//! The end of `weir sim --help`.

pub(super) const TEXT: &str = "\
Examples:
  weir sim scenarios/incast.scenario.yaml
  weir sim scenarios/leafspine-websearch.scenario.yaml --seed 7 --report out/websearch
  weir sim scenarios/leafspine-websearch.scenario.yaml --set 'traffic[0].load=80%' --checkers
  weir sim scenarios/leafspine-websearch.scenario.yaml --sweep seed=1..5 \\
    --sweep 'traffic[0].load=20%,40%,60%' --sweep transport.protocol=cubic,dctcp --report out/load
  weir sim scenarios/incast.scenario.yaml --json | jq .statistics.all.all.fct_ps
  sed 's/10Gb/25Gb/' scenarios/incast.scenario.yaml | weir sim -
  weir sim scenarios/parley-fig14.scenario.yaml --json | jq '.policy.phases[].settled_bps'

The same scenario, values and seed give the same bytes. Ctrl-C ends a run after the current sample
and keeps its results (exit code 130); twice ends it at once. `weir schema scenario` has all keys
that PATH may name: keys with dots, list indices in brackets. VALUE is written as in the file; a
list or a mapping in brackets, as in --set events=[].

A sweep runs every combination of its values, on all processors. VALUES are separated by commas;
1..5 is 1,2,3,4,5. Paths with a semicolon between them change together, value by value:
  --sweep 'transport=dctcp,pfabric; network.queue={discipline: ecn, mark: 97500B},pfabric'
All points are checked before the first one runs. The same command resumes an
interrupted sweep and runs failed points again; complete ones are kept. --force
starts over. The exit code is 1 if a point failed; the others are kept.

Files in DIR, all written whole or not at all:
  report.html         the page; `weir report DIR` draws it again from the other files
  command.txt         the command that makes the same files
  result.json         the run, counters, statistics, under a policy the services' bandwidths;
                      where it exists, the other files are complete
  flows.csv, .parquet a row for each flow: from, to, bytes, start, finish, ideal time, ...
  links.csv           a row for each link: bytes, packets, drops, marks, the longest queue in bytes
  link_samples.csv, group_samples.csv, hosts.csv
                      samples over time; hosts' names
  meters.csv          samples of machine shapers, under a policy with these
A sweep has a directory for each point in points/, and
  sweep.json          the scenario's SHA-256, the values, and the state of each point
  points.csv          a row for each complete point, group and size bin
  dataset/statistics/NAME.parquet
                      the same rows of a point with types: read_parquet('dataset/statistics/*')
  dataset/flows/NAME.parquet
                      with --flows, the flows of a point beside its swept values
  points/NAME/point.json
                      the point's statistics; where it exists, the point is complete

With --json, the content of result.json: {\"format\": 5, \"scenario\", \"backend\": \"sim\" or \"lab\",
\"seed\", \"complete\", \"unsound\": reason (only if so), \"simulated_ps\", \"sample_interval_ps\",
\"parameters\": {path: value}, \"groups\": [{\"name\", \"transport\"}], \"services\": [name], \"policy\":
POLICY, \"counters\": {name: number}, \"statistics\": {\"all\": GROUP, \"groups\": [GROUP]}, \"files\":
{what: name}}. Times are picoseconds (_ps), rates bit/s (_bps). GROUP is {\"name\", \"all\":
BIN, \"bins\": [BIN], \"delivered_bytes\", \"goodput_bps\", \"jain\", \"retransmissions\", \"timeouts\",
\"deadlines\": {\"count\", \"met\", \"missed\"}, \"coflows\": COFLOWS (only with coflows)};
COFLOWS is {\"flows_per_coflow\": number (null if they differ), \"fewest_flows\", \"most_flows\",
\"coflows\", \"unfinished\", \"cct_ps\": SUMMARY}. BIN is {\"over_bytes\", \"up_to_bytes\", \"flows\",
\"unfinished\", \"fct_ps\": SUMMARY, \"slowdown\": SUMMARY};
SUMMARY is {\"count\", \"unknown\", \"mean\", \"finished_mean\", \"p50\", \"p95\", \"p99\", \"p999\", \"max\"}.
Flows that did not finish count as slower than all others; a percentile that falls on them is
null, and so is the mean as long as there are any; \"finished_mean\" is that of the others.
\"services\" are those with machine shapers, of meters.csv.

POLICY, for a run under a policy: {\"enforcement\", \"duration_ps\", \"measure\": {\"rack\",
\"direction\", \"every_ps\", \"capacity_bps\"}, \"services\": [name], \"phases\": [{\"from_ps\", \"to_ps\",
\"sending\": [name], \"mean_bps\": {name: rate}, \"settled_bps\": {name: rate}}], \"samples\":
[{\"at_ps\", \"bandwidth_bps\": {name: rate}}], \"transfers\": [{\"service\", \"flows\",
\"delivered_bytes\", \"retransmissions\", \"timeouts\"}]}. A phase lies between two starts or stops
of traffic; `settled` is its second half; a mean without samples is null. The lab adds
\"requests\", \"messages\", \"ports\" and \"agents\"; it has no groups, statistics and files.

Of a sweep: the content of sweep.json, {\"format\": 2, \"weir\", \"sha256\", \"settings\": [{\"path\",
\"value\"}], \"parameters\": [{\"path\", \"values\"}], \"scenario\", \"seed\", \"command\", \"points\":
[{\"name\", \"parameters\", \"state\": \"complete\", \"failed\" or \"pending\", \"cause\"}]}, and in points
that are over \"seed\" and \"statistics\" (null if it failed).";
