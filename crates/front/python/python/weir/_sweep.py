"""``weir.sweep``: the points of a sweep on any engine, as one Parquet dataset."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

from ._engines import Engine, PointError, engine
from ._weir import Scenario, SweepDirectory, SweepJob, __version__

Value = Union[str, int, float, bool]
Outcome = Tuple[str, str, Optional[bytes], Optional[bytes]]

# Seconds between two writes of sweep.json: with many short points writing would be most of the work.
SAVE = 1.0


@dataclass(frozen=True)
class Sweep:
    """A sweep in its directory.

    ``points`` are the names of all points, and ``failed`` the reasons of those that cannot be run. ``complete`` is the
    number of the others whose parts are in the dataset.
    """

    directory: Path
    points: List[str]
    complete: int = 0
    failed: Dict[str, str] = field(default_factory=dict)
    has_flows: bool = False

    @property
    def dataset(self) -> str:
        """The pattern of the files of statistics, for ``read_parquet``: together they are one table."""
        return str(self.directory / "dataset" / "statistics" / "*.parquet")

    @property
    def flows(self) -> Optional[str]:
        """The same of the flows, if the sweep has them."""
        return str(self.directory / "dataset" / "flows" / "*.parquet") if self.has_flows else None


def run_point(job: SweepJob, point: int, share: int) -> Outcome:
    """Runs a point on a worker. A point that cannot be run is a value, since it would fail on every worker."""
    return job.run(point, share)


def worker_version() -> str:
    """The version of the package on a worker."""
    return __version__


def sweep(
    scenario: Scenario,
    grid: Mapping[Union[str, Tuple[str, ...]], Sequence[Any]],
    directory: Union[str, "PathLike[str]"],
    *,
    client: Any = None,
    flows: bool = False,
    checkers: bool = False,
    force: bool = False,
    retries: int = 3,
    in_flight: Optional[int] = None,
    progress: Optional[Callable[[Sweep], None]] = None,
) -> Sweep:
    """Runs a scenario at every combination of some values, and writes their results into ``directory``.

    ``grid`` has the values of each path. Paths in a tuple change together: each of their values is a tuple as well.
    ``client`` runs the points: None for threads of this process, an executor of ``concurrent.futures``, a
    ``distributed.Client`` of Dask, or the module ``ray`` or its name. Only this process writes files.

    The same call resumes a sweep: complete points are kept, all others are run. ``force`` starts over. ``flows`` adds
    the flows of each point. ``retries`` is how often Ray starts a point again whose worker was lost; with Dask an
    option of the scheduler decides, ``distributed.scheduler.allowed-failures``. ``in_flight`` is the number of points
    that the engine has at once. ``progress`` is called after each point.
    """
    groups = [_group(path, values) for path, values in grid.items()]
    if not groups:
        raise ValueError("the grid has no path\nhint: for one run, use Scenario.run")
    if retries < 0 or (in_flight is not None and in_flight < 1):
        raise ValueError(f"retries is {retries} and in_flight is {in_flight}: they are at least 0 and 1")
    runs = engine(client, retries)
    # The memory of other machines is not known here, and their points are checked against it when they run.
    share = min(runs.slots()[1], in_flight or sys.maxsize) if client is None else 1
    job = SweepJob(scenario, groups, flows=flows, checkers=checkers, share=share)
    opened = job.open(directory, force=force)
    lock = opened.lock_descriptor
    _locks.add(lock)
    try:
        if not opened.is_locked:
            text = f"the file system of `{directory}` has no locks: another sweep there would not be refused"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        if opened.flows and not flows:
            # A sweep that has flows goes on with them.
            job = SweepJob(scenario, groups, flows=True, checkers=checkers, share=share)
        try:
            _run(job, opened, runs, in_flight, lambda: progress and progress(_state(job, opened, directory)))
        finally:
            opened.finish()
        return _state(job, opened, directory)
    finally:
        _locks.discard(lock)
        opened.close()


# The descriptors of locks that this process holds.
_locks: Set[int] = set()


def _close_locks() -> None:
    """Closes the locks in a forked worker, which may outlive this process.

    The number of a lock stays in use, since a copy of its object closes that number as well.
    """
    for lock in _locks:
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(nothing, lock, inheritable=False)
        os.close(nothing)
    _locks.clear()


os.register_at_fork(after_in_child=_close_locks)


def _group(path: Union[str, Tuple[str, ...]], values: Sequence[Any]) -> List[Tuple[str, List[Value]]]:
    """The paths that change together, with the values of each."""
    if isinstance(values, (str, bytes)):
        raise TypeError(f"the values of `{path}` are one text\nhint: write a list, for example [{values!r}]")
    if isinstance(path, str):
        return [(path, list(values))]
    rows = [(row,) if isinstance(row, (str, bytes)) else tuple(row) for row in values]
    if any(len(row) != len(path) for row in rows):
        raise ValueError(f"the values of {path!r} are not all tuples of {len(path)} values")
    return [(one, [row[at] for row in rows]) for at, one in enumerate(path)]


def _state(job: SweepJob, opened: SweepDirectory, directory: Union[str, "PathLike[str]"]) -> Sweep:
    names, failed = job.names, opened.failed
    complete = len(names) - len(opened.pending)
    return Sweep(Path(directory), names, complete, failed, opened.flows)


def _run(
    job: SweepJob, opened: SweepDirectory, runs: Engine, in_flight: Optional[int], on: Callable[[], object]
) -> None:
    """Runs the points that are not complete. Few are with the engine at once, so few results are in memory."""
    rest = opened.pending
    rest.reverse()
    handles: Dict[Any, int] = {}
    saved = time.monotonic()
    try:
        with Interrupts() as interrupts:
            if rest:
                _check_version(runs, interrupts)
            while rest or handles:
                # Clusters grow and shrink.
                slots, share = runs.slots()
                while rest and len(handles) < (in_flight or 2 * slots):
                    point = rest.pop()
                    handles[runs.submit(run_point, job, point, min(share, in_flight or share))] = point
                ended = runs.wait(list(handles))
                _keep_all(opened, [(handles.pop(handle), handle) for handle in ended], runs, on)
                if time.monotonic() - saved >= SAVE:
                    saved = time.monotonic()
                    opened.save()
                interrupts.check()
    finally:
        # Points of this process end at their next sample; those of an engine that it cannot end are not used.
        if handles:
            job.stop()
        runs.close(list(handles))


class Interrupts:
    """Delays Ctrl-C to the end of a step: an exception in the middle of one would lose results or engines' locks."""

    def __enter__(self) -> Interrupts:
        self._arrived, self._before = False, None
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            # Only a handler of Python can be called later.
            if callable(before):
                self._before = before
                signal.signal(signal.SIGINT, self._arrive)
        return self

    def _arrive(self, *_: object) -> None:
        self._arrived = True

    def check(self) -> None:
        """Calls the handler if Ctrl-C has arrived."""
        if self._arrived and self._before is not None:
            self._arrived = False
            self._before(signal.SIGINT, None)

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)


def _check_version(runs: Engine, interrupts: Interrupts) -> None:
    """Refuses an engine whose workers lack this package or have another version: each point would fail."""
    handle = runs.submit(worker_version)
    try:
        while not runs.wait([handle]):
            interrupts.check()
    except BaseException:
        runs.close([handle])
        raise
    hint = f"hint: the scheduler and all workers need the Python package weir {__version__}"
    try:
        there = runs.result(handle)
    except PointError as error:
        raise RuntimeError(f"the first task failed: {error}\n{hint}") from error
    if there != __version__:
        raise RuntimeError(f"a worker has weir {there}\n{hint}")


def _keep_all(
    opened: SweepDirectory, ended: List[Tuple[int, Any]], runs: Engine, on: Callable[[], object]
) -> None:
    """Writes the results of points that ended together. The first exception is raised after the last of them."""
    first: Optional[BaseException] = None
    for point, handle in ended:
        try:
            _keep(opened, point, runs, handle)
            if first is None:
                on()
        except BaseException as error:
            first = first or error
    if first is not None:
        raise first


def _keep(opened: SweepDirectory, point: int, runs: Engine, handle: Any) -> None:
    """Writes the result of a point."""
    try:
        state, text, statistics, flows = runs.result(handle)
    except PointError as error:
        opened.fail(point, str(error))
        return
    if state == "complete":
        opened.store(point, text, statistics, flows)
    elif state == "failed":
        opened.fail(point, text)
    else:
        raise KeyboardInterrupt(f"point {point} was interrupted on its worker")
