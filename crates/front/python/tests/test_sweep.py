"""Sweeps from Python: the dataset is that of the command line, and nothing is lost or run twice."""

import concurrent.futures
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys

import polars
import pytest
import weir

STAR = """\
scenario: 1
name: star
duration: 100s
network:
  topology: star
  hosts: 4
  host-link: { rate: 1Gb/s, queue: { discipline: ecn, mark: 30kB } }
transport: { protocol: dctcp, min-rto: 10ms, ack-delay: 1ms }
traffic:
  - { kind: random, name: search, from: all, to: all, sizes: 1kB-200kB, load: 40%, flows: 40 }
"""
LOADS = {"seed": range(1, 3), "traffic[0].load": ["20%", "60%"]}


@pytest.fixture
def star(tmp_path):
    path = tmp_path / "star.scenario.yaml"
    path.write_text(STAR)
    return path


def dataset(directory):
    """All files of the dataset by name, with their bytes."""
    root = directory / "dataset"
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


class Counting(concurrent.futures.ThreadPoolExecutor):
    """Counts the points that it runs."""

    def __init__(self, workers=1):
        super().__init__(workers)
        self.points = []

    def submit(self, function, *arguments):
        if arguments:
            # The task without arguments returns the version.
            self.points.append(arguments[1])
        return super().submit(function, *arguments)


def test_the_dataset_is_that_of_the_command_line(cli, star, tmp_path):
    options = ["--sweep", "seed=1..2", "--sweep", "traffic[0].load=20%,60%", "--set", "duration=50s"]
    done = cli.run("sim", star, *options, "--flows", "--report", tmp_path / "cli")
    assert done.returncode == 0, done.stderr
    scenario = weir.Scenario.load(star)
    scenario.set("duration", "50s")
    seen = []
    sweep = weir.sweep(scenario, LOADS, tmp_path / "python", flows=True, progress=seen.append)
    assert sweep.complete == len(sweep.points) == 4 and sweep.failed == {}
    assert [state.complete for state in seen] == [1, 2, 3, 4]
    written = dataset(tmp_path / "python")
    assert list(written) == [f"{table}/{name}.parquet" for table in ("flows", "statistics") for name in sweep.points]
    assert written == dataset(tmp_path / "cli")
    for name in ("points.csv", "sweep.json"):
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "cli" / name).read_bytes(), name

    # All files are one table, of the rows of points.csv.
    rows = polars.read_parquet(sweep.dataset)
    table = polars.read_csv(tmp_path / "python" / "points.csv")
    assert rows.columns == table.columns and len(rows) == len(table) == 4 * 2 * 6
    assert rows["point"].unique().sort().to_list() == sweep.points
    assert rows["slowdown_p99"].to_list() == table["slowdown_p99"].to_list()
    flows = polars.read_parquet(sweep.flows)
    assert len(flows) == 4 * 40 and set(flows["traffic[0].load"]) == {"20%", "60%"}

    # The page is drawn from these files alone, and the command line runs the points whose other files are missing.
    page = (tmp_path / "python" / "report.html").read_text()
    assert cli.run("report", tmp_path / "python").returncode == 0
    assert (tmp_path / "python" / "report.html").read_text() == page and 'href="./points/' not in page
    done = cli.run("sim", star, *options, "--report", tmp_path / "python")
    assert done.returncode == 0 and "already complete" not in done.stderr, done.stderr
    assert dataset(tmp_path / "python") == written
    pool = Counting()
    assert weir.sweep(scenario, LOADS, tmp_path / "python", client=pool).complete == 4
    assert pool.points == []


def test_a_sweep_resumes_with_the_missing_points(star, tmp_path):
    scenario, tmp_path = weir.Scenario.load(star), tmp_path / "out"
    whole = weir.sweep(scenario, LOADS, tmp_path)
    written = dataset(tmp_path)
    shutil.rmtree(tmp_path / "points" / whole.points[2])
    parts = tmp_path / "dataset" / "statistics"
    (parts / f"{whole.points[0]}.parquet").unlink()
    (parts / f".{whole.points[0]}.parquet.4711").write_text("half")
    pool = Counting()
    assert weir.sweep(scenario, LOADS, tmp_path, client=pool) == whole
    assert pool.points == [2], "the part of a complete point is made again from its summary"
    assert dataset(tmp_path) == written
    pool = Counting()
    with_flows = weir.sweep(scenario, LOADS, tmp_path, client=pool, flows=True)
    assert sorted(pool.points) == [0, 1, 2, 3] and len(dataset(tmp_path)) == 8, "flows are in no other file"
    # A sweep that has flows goes on with them.
    assert weir.sweep(scenario, LOADS, tmp_path) == with_flows and with_flows.flows is not None

    with pytest.raises(FileExistsError, match="holds another sweep; different: the values swept over"):
        weir.sweep(scenario, {"seed": [7]}, tmp_path)
    assert len(dataset(tmp_path)) == 8
    other = weir.sweep(scenario, {"seed": [7]}, tmp_path, force=True)
    assert list(dataset(tmp_path)) == ["statistics/1_seed-7.parquet"] and other.flows is None


def test_values_that_change_together(cli, star, tmp_path):
    grid = {
        "seed": [3],
        ("transport", "network.host-link.queue"): [
            ("dctcp", "{discipline: ecn, mark: 30kB}"),
            ("cubic", "drop-tail"),
        ],
    }
    sweep = weir.sweep(weir.Scenario.load(star), grid, tmp_path / "python", flows=True)
    assert len(sweep.points) == 2
    together = "transport=dctcp,cubic; network.host-link.queue={discipline: ecn, mark: 30kB},drop-tail"
    report = tmp_path / "cli"
    done = cli.run("sim", star, "--sweep", "seed=3", "--sweep", together, "--flows", "--report", report)
    assert done.returncode == 0, done.stderr
    assert dataset(tmp_path / "python") == dataset(report)
    flows = polars.read_parquet(sweep.flows)
    assert flows["swept_transport"].unique().sort().to_list() == ["cubic", "dctcp"]


def test_a_point_that_fails_does_not_lose_the_others(tmp_path):
    policy = (
        "weir: 1\nnetwork:\n  nic: 10Mb/s\n  racks:\n    left: { uplink: 10Mb/s, machines: [l] }\n"
        "    right: { uplink: 10Mb/s, machines: [r] }\nservices:\n  web: { match: [ { protocol: PROTOCOL } ] }\n"
    )
    for protocol in ("tcp", "udp"):
        (tmp_path / f"{protocol}.yaml").write_text(policy.replace("PROTOCOL", protocol))
    text = (
        "scenario: 1\nname: mixed\npolicy: tcp.yaml\nduration: 2s\ntraffic:\n"
        "  - { service: web, from: left, to: right }\nmeasure: { rack: left, direction: tx, every: 1s }\n"
    )
    scenario = weir.Scenario.parse(text, directory=tmp_path)
    # No TCP packet belongs to the service of the first.
    sweep = weir.sweep(scenario, {"policy": ["udp.yaml", "tcp.yaml"]}, tmp_path / "out")
    assert sweep.complete == 1 and list(sweep.failed) == ["1_policy-udp.yaml"]
    assert list(dataset(tmp_path / "out")) == ["statistics/2_policy-tcp.yaml.parquet"]
    pool = Counting()
    weir.sweep(scenario, {"policy": ["udp.yaml", "tcp.yaml"]}, tmp_path / "out", client=pool)
    assert pool.points == [0], "a failed point is run again"


def test_mistakes_in_a_grid(star, tmp_path):
    scenario = weir.Scenario.load(star)
    for grid, error, text in [
        ({}, ValueError, "no path"),
        ({"seed": []}, weir.ScenarioError, "`seed` has no values"),
        ({"seed": [1, 1]}, weir.ScenarioError, "in the list twice"),
        ({"seed": "1..3"}, TypeError, "are one text"),
        ({("seed", "duration"): [(1, "1s"), (2,)]}, ValueError, "tuples of 2 values"),
        ({"traffic[0].load": ["20%", "200%"]}, weir.ScenarioError, "200%"),
        ({"seed": [None]}, TypeError, "cannot have the value None"),
    ]:
        with pytest.raises(error, match=text):
            weir.sweep(scenario, grid, tmp_path / "out")
    scenario.set("seed", 1)
    with pytest.raises(weir.ScenarioError, match="`seed` is given twice"):
        weir.sweep(scenario, {"seed": [2]}, tmp_path / "out")
    with pytest.raises(TypeError, match="cannot run points on 'dask'"):
        weir.sweep(scenario, {"traffic[0].flows": [2]}, tmp_path / "out", client="dask")
    for options in ({"in_flight": 0}, {"retries": -1}):
        with pytest.raises(ValueError, match="at least 0 and 1"):
            weir.sweep(scenario, {"traffic[0].flows": [2]}, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_processes_and_pickled_jobs(star, tmp_path):
    scenario = weir.Scenario.load(star)
    expected = weir.sweep(scenario, LOADS, tmp_path / "threads").points
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        assert weir.sweep(scenario, LOADS, tmp_path / "processes", client=pool).points == expected
    assert dataset(tmp_path / "processes") == dataset(tmp_path / "threads")
    job = weir._weir.SweepJob(scenario, [[("seed", [1, 2])]])
    sent = pickle.loads(pickle.dumps(job))
    star.unlink()
    assert sent.names == job.names and sent.run(1) == job.run(1)
    with pytest.raises(RuntimeError, match="has no directory"):
        sent.open(tmp_path / "worker")
    with pytest.raises(IndexError):
        sent.run(2)


def kill_one(job, point, share):
    """A worker that is killed before its second point."""
    if point == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return job.run(point, share)


def test_an_executor_that_broke_fails_no_point(star, tmp_path, monkeypatch):
    scenario = weir.Scenario.load(star)
    monkeypatch.setattr(weir._sweep, "run_point", kill_one)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        with pytest.raises(RuntimeError, match="the executor ended"):
            weir.sweep(scenario, LOADS, tmp_path / "out", client=pool, in_flight=1)
    monkeypatch.undo()
    pool = Counting()
    sweep = weir.sweep(scenario, LOADS, tmp_path / "out", client=pool)
    assert pool.points == [1, 2, 3] and sweep.complete == 4 and sweep.failed == {}


def interrupt_second(job, point, share):
    """Ctrl-C while the second point runs."""
    if point == 1:
        os.kill(os.getpid(), signal.SIGINT)
    return job.run(point, share)


def test_ctrl_c_keeps_complete_points(star, tmp_path, monkeypatch):
    scenario = weir.Scenario.load(star)
    # A run ends at its next sample, of which there is a fixed number.
    scenario.set("duration", "20s")
    grid = {"traffic[0].flows": [10, 200_000, 200_001]}
    monkeypatch.setattr(weir._sweep, "run_point", interrupt_second)
    pool = Counting()
    with pytest.raises(KeyboardInterrupt):
        weir.sweep(scenario, grid, tmp_path / "out", client=pool)
    pool.shutdown()
    assert list(dataset(tmp_path / "out")) == ["statistics/1_flows-10.parquet"]
    assert (tmp_path / "out" / "sweep.json").read_text().count('"state":"pending"') == 2
    monkeypatch.undo()
    # The directory is unlocked.
    short = {"traffic[0].flows": [10]}
    assert weir.sweep(scenario, short, tmp_path / "out", force=True).complete == 1


def test_a_forked_pool_runs_two_sweeps_of_one_directory(star, tmp_path):
    scenario = weir.Scenario.load(star)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        # Its workers are forked while the directory is locked.
        first = weir.sweep(scenario, {"seed": [1]}, tmp_path / "out", client=pool)
        assert weir.sweep(scenario, {"seed": [1]}, tmp_path / "out", client=pool) == first


KILLED_WITH_WORKERS = """\
import concurrent.futures, multiprocessing, os, signal, sys
import weir

def die(state):
    print(*pool._processes, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
    weir.sweep(weir.Scenario.load(sys.argv[1]), {"seed": [1, 2]}, sys.argv[2], client=pool, progress=die)
"""


def test_workers_of_a_killed_process_keep_no_lock(star, tmp_path):
    # A pipe would end with the workers.
    with open(tmp_path / "pids", "w") as pids:
        arguments = [sys.executable, "-c", KILLED_WITH_WORKERS, star, tmp_path / "out"]
        killed = subprocess.run(arguments, stdout=pids, stderr=subprocess.DEVNULL, check=False)
    assert killed.returncode == -signal.SIGKILL
    workers = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    try:
        assert len(workers) == 1 and os.path.exists(f"/proc/{workers[0]}"), "the worker has outlived it"
        assert weir.sweep(weir.Scenario.load(star), {"seed": [1, 2]}, tmp_path / "out").complete == 2
    finally:
        for worker in workers:
            os.kill(worker, signal.SIGKILL)


class Together(Counting):
    """Ends its points at once when it has three of them: the first one is lost."""

    def __init__(self):
        super().__init__()
        self.waiting = []

    def submit(self, function, *arguments):
        if not arguments:
            return super().submit(function)
        self.points.append(arguments[1])
        future = concurrent.futures.Future()
        self.waiting.append((future, arguments))
        if len(self.waiting) == 3:
            (lost, _), *others = self.waiting
            for other, (job, point, share) in others:
                other.set_result(job.run(point, share))
            lost.set_exception(concurrent.futures.BrokenExecutor("lost"))
        return future


def test_a_lost_point_does_not_lose_those_that_ended_with_it(star, tmp_path):
    scenario = weir.Scenario.load(star)
    with pytest.raises(RuntimeError, match="the executor ended: lost"):
        weir.sweep(scenario, {"seed": [1, 2, 3]}, tmp_path / "out", client=Together(), in_flight=3)
    assert list(dataset(tmp_path / "out")) == ["statistics/2_seed-2.parquet", "statistics/3_seed-3.parquet"]
    pool = Counting()
    assert weir.sweep(scenario, {"seed": [1, 2, 3]}, tmp_path / "out", client=pool).complete == 3
    assert pool.points == [0]


def absent():
    raise ModuleNotFoundError("No module named 'weir'")


@pytest.mark.parametrize(
    ("version", "text"), [(lambda: "0.0.1", "a worker has weir 0.0.1"), (absent, "the first task failed: Module")]
)
def test_workers_need_the_same_version(star, tmp_path, monkeypatch, version, text):
    monkeypatch.setattr(weir._sweep, "worker_version", version)
    pool = Counting()
    with pytest.raises(RuntimeError, match=f"{text}.*\nhint: the scheduler and all workers need"):
        weir.sweep(weir.Scenario.load(star), LOADS, tmp_path / "out", client=pool)
    assert pool.points == []
    monkeypatch.undo()
    sweep = weir.sweep(weir.Scenario.load(star), LOADS, tmp_path / "out", client=pool)
    assert sweep.complete == 4 and sweep.failed == {}, "no point has failed"


def test_threads_are_as_many_as_the_processors_of_the_process():
    program = """
import os
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
import weir._engines
print(*weir._engines.Executor().slots())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "1 1\n"


def test_force_replaces_a_sweep_whose_list_is_unreadable(star, tmp_path):
    scenario = weir.Scenario.load(star)
    weir.sweep(scenario, LOADS, tmp_path / "out")
    (tmp_path / "out" / "sweep.json").write_text("{")
    with pytest.raises(OSError, match="sweep.json"):
        weir.sweep(scenario, {"seed": [7]}, tmp_path / "out")
    weir.sweep(scenario, {"seed": [7]}, tmp_path / "out", force=True)
    assert [path.name for path in (tmp_path / "out" / "points").iterdir()] == ["1_seed-7"]
    assert list(dataset(tmp_path / "out")) == ["statistics/1_seed-7.parquet"]
