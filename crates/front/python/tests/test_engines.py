"""Sweeps on Dask and Ray: killed workers and killed drivers lose no point and run no complete point again."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import weir
from test_sweep import STAR, Counting, dataset

# Two for each worker are with the engine at once, so after the first point there are others under way.
GRID = {"seed": range(1, 13), "traffic[0].flows": [2000]}

# Seconds after which a condition that does not come is a failure.
DEADLINE = 120

DRIVER = """\
import sys
import weir
from test_engines import GRID, started

with started(sys.argv[1]) as client:
    scenario = weir.Scenario.load(sys.argv[2])
    weir.sweep(scenario, GRID, sys.argv[3], client=client, progress=lambda state: print(state.complete, flush=True))
"""


@pytest.fixture(scope="module")
def star(tmp_path_factory):
    path = tmp_path_factory.mktemp("scenario") / "star.scenario.yaml"
    path.write_text(STAR)
    return path


@pytest.fixture(scope="module")
def expected(star, tmp_path_factory):
    """The dataset of the same sweep on threads."""
    directory = tmp_path_factory.mktemp("threads") / "out"
    assert weir.sweep(weir.Scenario.load(star), GRID, directory).complete == 12
    return dataset(directory)


class Dask:
    """Two processes on the loopback interface."""

    def __enter__(self):
        import dask
        import distributed

        # Busy processors answer late.
        dask.config.set({"distributed.comm.timeouts.connect": "60s", "distributed.comm.timeouts.tcp": "60s"})
        self.cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
        )
        self.client = distributed.Client(self.cluster)
        self.pids = self.client.run(os.getpid)
        return self.client

    def __exit__(self, *_):
        self.client.close()
        self.cluster.close()

    def busy(self):
        return [self.pids[worker] for worker, tasks in self.client.processing().items() if tasks]


class Ray:
    """Two processes on the loopback interface, without the dashboard and reports to Ray's makers."""

    def __enter__(self):
        # At the niceness of Ray's workers, other tests of the machine come first.
        os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
        import ray

        # The paths of sockets are short. The directory of a driver that will be killed is its parent's.
        self.directory = os.environ.get("WEIR_TEST_RAY") or tempfile.mkdtemp(prefix="weir-ray-", dir="/tmp")
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            object_store_memory=80_000_000,
            log_to_driver=False,
            _temp_dir=self.directory,
        )
        return ray

    def __exit__(self, *_):
        import ray

        ray.shutdown()
        shutil.rmtree(self.directory, ignore_errors=True)

    def busy(self):
        """Ray's processes are named after their tasks."""
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in pids if b"ray::run_point" in command(pid) and os.getpid() in ancestors(pid)]


def command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def ancestors(pid):
    found = []
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
        found.append(pid)
    return found


def started(name):
    return {"dask": Dask, "ray": Ray}[name]()


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_a_killed_worker_loses_nothing(star, tmp_path, expected, name):
    engine = started(name)
    states, killed = [], []

    def kill(state):
        states.append(state.complete)
        deadline = time.monotonic() + DEADLINE
        while not killed:
            assert time.monotonic() < deadline, "no worker has a point"
            for pid in engine.busy()[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    with engine as client:
        sweep = weir.sweep(weir.Scenario.load(star), GRID, tmp_path / "out", client=client, progress=kill)
    assert len(killed) == 1 and not Path(f"/proc/{killed[0]}").exists()
    assert sweep.complete == 12 and sweep.failed == {}
    assert states == list(range(1, 13)), "each point came once"
    assert dataset(tmp_path / "out") == expected


@pytest.fixture
def short_directory():
    directory = tempfile.mkdtemp(prefix="weir-ray-", dir="/tmp")
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_a_killed_driver_loses_no_complete_point(star, tmp_path, expected, short_directory, name):
    out = tmp_path / "out"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "WEIR_TEST_RAY": short_directory}
    # In a file, since the processes of Dask import it again.
    program = tmp_path / "driver.py"
    program.write_text("if __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in DRIVER.splitlines()))
    arguments = [sys.executable, program, name, star, out]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment) as driver:
        for line in driver.stdout:
            if line.strip() == "3":
                driver.kill()
                break
        else:
            raise AssertionError("the driver ended by itself")
    complete = [path.parent.name for path in (out / "points").glob("*/point.json")]
    assert 3 <= len(complete) < 12
    before = {path: path.stat().st_mtime_ns for path in (out / "dataset" / "statistics").glob("*.parquet")}
    pool = Counting(2)
    sweep = weir.sweep(weir.Scenario.load(star), GRID, out, client=pool)
    assert sorted(pool.points) == [at for at, point in enumerate(sweep.points) if point not in complete]
    kept = {path: at for path, at in before.items() if path.stem in complete}
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert sweep.complete == 12 and dataset(out) == expected


def refused(name):
    """A point that no worker can run: the engine's exception, after its retries."""
    return lambda job, point, share: (_ for _ in ()).throw(ValueError(f"{name} {point}"))


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_a_failing_task_is_a_failed_point(star, tmp_path, monkeypatch, name):
    monkeypatch.setattr(weir._sweep, "run_point", refused(name))
    grid = {"seed": [1, 2]}
    with started(name) as client:
        sweep = weir.sweep(weir.Scenario.load(star), grid, tmp_path / "out", client=client, retries=0)
        assert sweep.complete == 0 and all(f"{name} " in cause for cause in sweep.failed.values()), sweep.failed
        monkeypatch.undo()
        assert weir.sweep(weir.Scenario.load(star), grid, tmp_path / "out", client=client).complete == 2


def test_ray_must_be_started(star, tmp_path):
    with pytest.raises(RuntimeError, match="call ray.init"):
        weir.sweep(weir.Scenario.load(star), GRID, tmp_path, client="ray")


@pytest.mark.parametrize("name", ["ObjectStoreFullError", "OutOfDiskError"])
def test_a_full_object_store_is_no_end_of_the_cluster(monkeypatch, name):
    import ray

    def full(_):
        raise getattr(ray.exceptions, name)("full")

    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "put", full)
    with pytest.raises(RuntimeError, match=f"Ray cannot store the job: {name}: full"):
        weir._engines.Ray(ray, 0).submit(weir._sweep.run_point, object(), 1, 1)


def test_a_lost_scheduler_fails_no_point(star, tmp_path):
    import distributed

    file, out = tmp_path / "scheduler.json", tmp_path / "out"
    common = ["--scheduler-file", file, "--host", "127.0.0.1", "--no-dashboard"]
    programs = [
        ["-m", "distributed.cli.dask_scheduler", "--port", "0", *common],
        ["-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", *common],
    ]
    running = []
    try:
        for program in programs:
            with open(tmp_path / "log", "a") as log:
                running.append(subprocess.Popen([sys.executable, *program], stdout=log, stderr=log, cwd=tmp_path))
        deadline = time.monotonic() + DEADLINE
        while not file.exists():
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.1)

        def kill(state):
            running[0].kill()
            running[0].wait()

        # The scheduler listens already, and the client tries for so many seconds to reach it again.
        with distributed.Client(scheduler_file=str(file), timeout=10) as client:
            client.wait_for_workers(1, timeout=DEADLINE)
            with pytest.raises(RuntimeError, match="(?s)the scheduler ended: .*hint: the same call"):
                weir.sweep(weir.Scenario.load(star), GRID, out, client=client, progress=kill)
    finally:
        for program in running:
            program.kill()
            program.wait()
    complete = {path.parent.name for path in (out / "points").glob("*/point.json")}
    assert 1 <= len(complete) < 12
    pool = Counting(2)
    sweep = weir.sweep(weir.Scenario.load(star), GRID, out, client=pool)
    assert sorted(pool.points) == [at for at, point in enumerate(sweep.points) if point not in complete]
    assert sweep.complete == 12 and sweep.failed == {}
