"""Runs equal those of the command line, their tables are read by other libraries, and they end early cleanly."""

import signal
import threading

import pandas
import polars
import pyarrow
import pyarrow.csv
import pytest
import weir

STAR = """\
scenario: 1
name: star
duration: 10s
network: { topology: star, hosts: 4, host-link: { rate: 10Gb/s } }
traffic: [ { from: h1, to: h0 }, { kind: random, from: all, to: all, sizes: websearch, load: 60% } ]
"""


GOVERNED = {
    "duration": "60ms",
    "measure.every": "10ms",
    "traffic[0].stop": "40ms",
    "traffic[1].start": "20ms",
    "traffic[1].stop": "60ms",
}


def shortened(scenarios, name, duration):
    scenario = weir.Scenario.load(scenarios / f"{name}.scenario.yaml")
    scenario.set("duration", duration)
    return scenario


@pytest.mark.parametrize(
    "name, values",
    [("incast", {"duration": "10ms"}), ("leafspine-websearch", {"duration": "1ms"}), ("parley-fig14", GOVERNED)],
)
def test_results_are_those_of_the_command_line(cli, scenarios, tmp_path, name, values):
    path = scenarios / f"{name}.scenario.yaml"
    options = [word for item in values.items() for word in ("--set", "=".join(item))]
    expected = cli.json("sim", path, *options, "--seed", 7, "--report", tmp_path)
    scenario = weir.Scenario.load(path)
    scenario.update({**values, "seed": 7})
    assert scenario.parameters == {**values, "seed": "7"}
    results = scenario.run()
    assert results.complete and results.seed == 7 and results.scenario == scenario.name
    assert results.parameters == values
    assert results.to_json() == expected
    assert results.counters == expected["counters"]
    compare_tables(results, expected, tmp_path)
    is_governed = name.startswith("parley")
    assert all((len(table) > 0) == is_governed for table in (results.services, results.phases, results.meters))
    assert (len(results.coflows) > 0) == (name == "incast")


def compare_tables(results, expected, report):
    """Compares the tables with the files of the report, and with the statistics of the command line."""
    text = {name: pyarrow.large_string() for name in ("link", "group", "transport", "from", "to", "host", "service")}
    for name in ["flows", "links", "link_samples", "group_samples", "meters"]:
        table = pyarrow.table(getattr(results, name))
        file = report / f"{name}.csv"
        assert file.exists() == (name != "meters" or len(table) > 0)
        if not file.exists():
            continue
        options = pyarrow.csv.ConvertOptions(column_types=text)
        written = pyarrow.csv.read_csv(file, convert_options=options)
        assert len(table) == len(getattr(results, name)) == len(written)
        for column in set(table.column_names) - {"jain"}:
            assert table[column].to_pylist() == written[column].to_pylist(), (name, column)
    rows = [group["all"] for group in [expected["statistics"]["all"], *expected["statistics"]["groups"]]]
    statistics = pyarrow.table(results.statistics).to_pylist()
    whole = [row for row in statistics if row["over_bytes"] == 0 and row["up_to_bytes"] is None]
    assert len(whole) == len(rows)
    for row, wanted in zip(whole, rows):
        assert row["flows"] == wanted["flows"] and row["unfinished"] == wanted["unfinished"]
        for part in ("mean", "p50", "p95", "p99", "p999", "max"):
            assert row[f"fct_{part}_ps"] == wanted["fct_ps"][part]
            assert row[f"slowdown_{part}"] == wanted["slowdown"][part]
    coflows = [group for group in expected["statistics"]["groups"] if "coflows" in group]
    assert [row["group"] for row in pyarrow.table(results.coflows).to_pylist()] == [one["name"] for one in coflows]
    policy = expected.get("policy") or {"samples": [], "phases": []}
    samples = [(sample["at_ps"], *item) for sample in policy["samples"] for item in sample["bandwidth_bps"].items()]
    assert [tuple(row.values()) for row in pyarrow.table(results.services).to_pylist()] == samples
    phases = [(phase["from_ps"], *item) for phase in policy["phases"] for item in phase["mean_bps"].items()]
    found = pyarrow.table(results.phases).to_pylist()
    assert [(row["from_ps"], row["service"], row["mean_bps"]) for row in found] == phases


def test_tables_are_read_by_pyarrow_pandas_and_polars(scenarios):
    flows = shortened(scenarios, "incast", "10ms").run().flows
    arrow = pyarrow.table(flows)
    assert arrow.schema.field("start_ps").type == pyarrow.uint64()
    assert arrow.column_names == flows.column_names
    assert pyarrow.schema(flows) == arrow.schema
    frame = polars.DataFrame(flows)
    assert frame.to_dicts() == arrow.to_pylist()
    data = pandas.DataFrame.from_arrow(flows)
    assert list(data.columns) == flows.column_names and len(data) == len(flows) > 0
    assert data["bytes"].sum() == sum(row["bytes"] for row in arrow.to_pylist())
    # The memory outlives the object that made it.
    del flows
    assert arrow["bytes"].to_pylist() == frame["bytes"].to_list()


def test_values_of_python_are_those_of_documents():
    scenario = weir.Scenario.parse(STAR)
    scenario.update({"duration": "1ms", "traffic[1].load": "30%", "seed": 3})
    other = scenario.copy()
    scenario.set("seed", 4)
    assert (scenario.seed, other.seed) == (4, 3)
    assert other.parameters == {"duration": "1ms", "traffic[1].load": "30%", "seed": "3"}
    assert other.run().to_json() == other.run().to_json()
    with pytest.raises(TypeError, match="hint: "):
        scenario.set("seed", None)


def test_refused_scenarios_have_positions_and_change_nothing(scenarios):
    with pytest.raises(weir.ScenarioError) as refused:
        weir.Scenario.parse(STAR.replace("h0", "h9"), name="star.scenario.yaml")
    first = refused.value.diagnostics[0]
    assert (first.file, first.line) == ("star.scenario.yaml", 5)
    assert "`h9`" in first.cause and first.hint
    scenario = weir.Scenario.parse(STAR)
    for path, value in [("seeed", 3), ("duration", "10"), ("traffic[7].load", "30%")]:
        with pytest.raises(weir.ScenarioError) as refused:
            scenario.set(path, value)
        assert refused.value.diagnostics[0].hint
    assert scenario.parameters == {}
    with pytest.raises(weir.ScenarioError) as refused:
        weir.Scenario.load(scenarios / "redis.scenario.yaml")
    assert refused.value.diagnostics[0].line


def test_progress_may_end_a_run_with_results():
    seen = []

    def progress(now):
        seen.append(now)
        return False

    scenario = weir.Scenario.parse(STAR)
    results = scenario.run(progress=progress)
    assert not results.complete
    assert results.simulated_ps < 10 * 10**12
    assert seen[0].duration_s == 10.0 and 0.0 <= seen[0].fraction < 1.0
    assert seen[0].expected is None or seen[0].expected >= seen[0].finished


def test_exceptions_of_the_callback_end_the_run():
    def progress(_now):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        weir.Scenario.parse(STAR).run(progress=progress)


def test_ctrl_c_ends_a_run():
    # The signal arrives at the first progress, while the simulation goes on.
    def progress(_now):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        weir.Scenario.parse(STAR).run(progress=progress)
    # The next run is not affected.
    scenario = weir.Scenario.parse(STAR)
    scenario.set("duration", "1ms")
    assert scenario.run().complete


def test_other_threads_run_meanwhile():
    # Each run waits in its callback for the other one, which so needs the GIL.
    meeting, results = threading.Barrier(2, timeout=60), []

    def run():
        waited = []

        def progress(_now):
            if not waited:
                waited.append(meeting.wait())

        scenario = weir.Scenario.parse(STAR)
        scenario.set("duration", "2ms")
        results.append(scenario.run(progress=progress).to_json())

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2 and results[0] == results[1]
