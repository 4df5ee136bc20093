#!/usr/bin/env python3
"""Points per second of one sweep on the command line, threads, Dask and Ray, with one and two workers.

    make python && WEIR_CLI=target/release/weir target/python/venv/bin/python tools/sweep-throughput.py [SCENARIO]

Every measurement runs the same points once, after one point that starts the workers. The starting of the engine itself
is not counted. The datasets of all measurements must be the same bytes.
"""

import concurrent.futures
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import weir

POINTS = 24
DURATION = "60ms"
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


def dataset(directory):
    return {path.name: path.read_bytes() for path in (directory / "dataset").rglob("*.parquet")}


def engine(start, workers, scenario, out):
    with start(workers) as client:
        weir.sweep(scenario, {"seed": range(101, 101 + workers)}, out / "first", client=client)
        begun = time.perf_counter()
        weir.sweep(scenario, {"seed": range(1, POINTS + 1)}, out / "all", client=client)
        return time.perf_counter() - begun, dataset(out / "all")


def command_line(path, workers, out):
    options = ["--set", f"duration={DURATION}", "--sweep", f"seed=1..{POINTS}", "--jobs", str(workers)]
    begun = time.perf_counter()
    command = [os.environ["WEIR_CLI"], "sim", path, *options, "--report", out / "all"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begun, dataset(out / "all")


def main():
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "scenarios" / "leafspine-websearch.scenario.yaml"
    scenario = weir.Scenario.load(path)
    scenario.set("duration", DURATION)
    print(f"{path.name}, {DURATION}, {POINTS} points\n\n| engine | 1 worker | 2 workers | ratio |\n|---|---|---|---|")
    expected = None
    measured = {"command line": None, "threads": threads, "Dask": dask, "Ray": ray}
    for name, start in measured.items():
        rates = []
        for workers in (1, 2):
            with tempfile.TemporaryDirectory() as directory:
                out = Path(directory)
                spent, parts = (
                    engine(start, workers, scenario, out) if start else command_line(path, workers, out)
                )
            expected = expected or parts
            assert len(parts) == POINTS and parts == expected, f"{name} wrote another dataset"
            rates.append(POINTS / spent)
        print(f"| {name} | {rates[0]:.2f} points/s | {rates[1]:.2f} points/s | {rates[1] / rates[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
