#!/usr/bin/env python3
"""Points per second of one sweep on the command line, threads, Dask and Ray, with one and two workers.

    WEIR_PROFILE=release tools/python.sh --build
    WEIR_CLI=target/release/weir target/python/venv/bin/python tools/sweep-throughput.py [SCENARIO]

The program and the package must have the same profile. Each measurement runs the same points RUNS times, and the
median is printed. A measurement is the time of the check of all points, of their runs and of the report:

- Engines start before it, and run one point for each worker first.
- The start of the program is measured alone (`weir --version`) and subtracted.
- The command line also writes the files of each run, which `weir.sweep` does not. The time for these is part of its
  measurement, and their size is printed.

The datasets of all measurements must be the same bytes.
"""

import concurrent.futures
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import weir

POINTS = 24
DURATION = "60ms"
RUNS = 3
ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def threads(workers):
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        yield pool


@contextmanager
def dask(workers):
    import distributed

    options = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": None}
    with distributed.LocalCluster(n_workers=workers, **options) as cluster, distributed.Client(cluster) as client:
        yield client


@contextmanager
def ray(workers):
    # Without, its workers give way to all other programs.
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
    import ray

    options = {"include_dashboard": False, "object_store_memory": 80_000_000, "log_to_driver": False}
    ray.init(num_cpus=workers, _node_ip_address="127.0.0.1", **options)
    try:
        yield ray
    finally:
        ray.shutdown()


def timed(work):
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def dataset(directory):
    return {path.name: path.read_bytes() for path in (directory / "dataset").rglob("*.parquet")}


def program(*arguments):
    command = [os.environ["WEIR_CLI"], *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def engine(start, workers, scenario, out):
    """The seconds of each run."""
    with start(workers) as client:
        weir.sweep(scenario, {"seed": range(101, 101 + workers)}, out / "first", client=client)
        grid = {"seed": range(1, POINTS + 1)}
        return [timed(lambda at=at: weir.sweep(scenario, grid, out / f"{at}", client=client)) for at in range(RUNS)]


def command_line(path, workers, out):
    """The same without the start of the program."""
    start = statistics.median(timed(lambda: program("--version")) for _ in range(5))
    options = ["--set", f"duration={DURATION}", "--sweep", f"seed=1..{POINTS}", "--jobs", str(workers)]
    run = lambda at: program("sim", path, *options, "--report", out / f"{at}")
    return [timed(lambda at=at: run(at)) - start for at in range(RUNS)]


def size(directory):
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def main():
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "scenarios" / "leafspine-websearch.scenario.yaml"
    scenario = weir.Scenario.load(path)
    scenario.set("duration", DURATION)
    print(f"{path.name}, {DURATION}, {POINTS} points, medians of {RUNS} runs\n")
    print("| engine | 1 worker | 2 workers | ratio |\n|---|---:|---:|---:|")
    expected, files = None, 0
    measured = {"command line": None, "threads": threads, "Dask": dask, "Ray": ray}
    for name, start in measured.items():
        rates = []
        for workers in (1, 2):
            with tempfile.TemporaryDirectory() as directory:
                out = Path(directory)
                spent = engine(start, workers, scenario, out) if start else command_line(path, workers, out)
                files = files or size(out / "0" / "points") // POINTS
                for at in range(RUNS):
                    parts = dataset(out / f"{at}")
                    expected = expected or parts
                    assert len(parts) == POINTS and parts == expected, f"{name} wrote another dataset"
            rates.append(POINTS / statistics.median(spent))
        print(f"| {name} | {rates[0]:.2f} points/s | {rates[1]:.2f} points/s | {rates[1] / rates[0]:.2f} |", flush=True)
    print(f"\nThe command line also writes the files of runs, {files / 1e6:.1f} MB for each point.")


if __name__ == "__main__":
    main()
