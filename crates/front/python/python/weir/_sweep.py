"""``weir.sweep``: the points of a sweep on any engine, as one Parquet dataset."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._engines import Engine, PointError, engine
from ._weir import Scenario, SweepDirectory, SweepJob

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
    ``distributed.Client`` of Dask, or the module ``ray``. Only this process writes files.

    The same call resumes a sweep: complete points are kept, all others are run. ``force`` starts over. ``flows`` adds
    the flows of each point. ``retries`` is how often an engine starts a point again whose worker was lost, and
    ``in_flight`` the number of points that it has at once. ``progress`` is called after each point.
    """
    groups = [_group(path, values) for path, values in grid.items()]
    if not groups:
        raise ValueError("the grid has no path\nhint: for one run, use Scenario.run")
    if retries < 0 or (in_flight is not None and in_flight < 1):
        raise ValueError(f"retries is {retries} and in_flight is {in_flight}: they are at least 0 and 1")
    job = SweepJob(scenario, groups, flows=flows, checkers=checkers)
    runs = engine(client, retries)
    opened = job.open(directory, force=force)
    try:
        if opened.flows and not flows:
            # A sweep that has flows goes on with them.
            job = SweepJob(scenario, groups, flows=True, checkers=checkers)
        try:
            _run(job, opened, runs, in_flight, lambda: progress and progress(_state(job, opened, directory)))
        finally:
            opened.finish()
        return _state(job, opened, directory)
    finally:
        opened.close()


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
            while rest or handles:
                # Clusters grow and shrink.
                slots, share = runs.slots()
                while rest and len(handles) < (in_flight or 2 * slots):
                    point = rest.pop()
                    handles[runs.submit(run_point, job, point, share)] = point
                for handle in runs.wait(list(handles)):
                    _keep(opened, handles.pop(handle), runs, handle)
                    on()
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
