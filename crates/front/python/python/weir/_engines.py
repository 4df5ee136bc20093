"""The engines that run the points of a sweep, by one interface.

An engine starts a task on some worker, starts it again when a worker is lost, and returns its value or its exception.
Neither Dask nor Ray is imported unless a client of it is given.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import queue
import sys
from types import ModuleType
from typing import Any, Callable, Dict, Iterator, List, Protocol, Tuple, Type
from urllib.parse import urlsplit

from ._weir import processors


class LostEngine(RuntimeError):
    """The engine itself is gone: its points have not failed, and the same call runs them again."""


class PointError(Exception):
    """A task that raised an exception, or that the engine has given up after its retries."""


# Seconds between two checks for Ctrl-C.
PERIOD = 0.1


class Engine(Protocol):
    """What a sweep needs of an engine. All but `close` raise LostEngine if the engine is gone."""

    def slots(self) -> Tuple[int, int]:
        """The tasks that can run at once: on all machines, and the most on one of them."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Starts a task, and returns its handle."""

    def wait(self, handles: List[Any]) -> List[Any]:
        """The handles of those tasks that have ended. Waits for one, but not longer than PERIOD."""

    def result(self, handle: Any) -> Any:
        """The value of a task that has ended. Raises PointError if it has none."""

    def close(self, handles: List[Any]) -> None:
        """Ends the tasks that have not begun, and if possible the others. Raises nothing."""


class Ended:
    """The ends of futures, which call back from other threads."""

    def __init__(self) -> None:
        self._queue: "queue.SimpleQueue[Any]" = queue.SimpleQueue()

    def watch(self, handle: Any) -> Any:
        handle.add_done_callback(self._queue.put)
        return handle

    def wait(self, handles: List[Any]) -> List[Any]:
        with contextlib.suppress(queue.Empty):
            # Which of them it was does not matter: all that have ended are returned.
            self._queue.get(timeout=PERIOD)
        return [handle for handle in handles if handle.done()]


class Executor:
    """An executor of ``concurrent.futures``; without one, threads of this process, which do not hold the GIL."""

    def __init__(self, executor: Any = None) -> None:
        self._own = concurrent.futures.ThreadPoolExecutor(processors()) if executor is None else None
        self._executor: Any = self._own if executor is None else executor
        self._ended = Ended()

    def slots(self) -> Tuple[int, int]:
        # The attribute of the executors of the standard library.
        workers = getattr(self._executor, "_max_workers", None) or processors()
        return workers, workers

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with _losing("executor", concurrent.futures.BrokenExecutor):
            return self._ended.watch(self._executor.submit(function, *arguments))

    def wait(self, handles: List[Any]) -> List[Any]:
        return self._ended.wait(handles)

    def result(self, handle: Any) -> Any:
        try:
            return handle.result()
        except (concurrent.futures.BrokenExecutor, concurrent.futures.CancelledError) as error:
            raise LostEngine(_lost("executor", error)) from error
        except Exception as error:
            raise PointError(_text(error)) from error

    def close(self, handles: List[Any]) -> None:
        for handle in handles:
            handle.cancel()
        if self._own is not None:
            self._own.shutdown(wait=True)


class Dask:
    """A ``distributed.Client``. An option of the scheduler limits how often the task of a lost worker is run again."""

    def __init__(self, client: Any) -> None:
        if client.asynchronous:
            raise TypeError("weir.sweep takes a synchronous client: distributed.Client(..., asynchronous=False)")
        from distributed import CancelledError
        from distributed import client as module

        self._client, self._ended = client, Ended()
        # Lost connections are errors of the system. Older versions have no error of closed clients.
        self._gone = (OSError, CancelledError, getattr(module, "ClosedClientError", OSError))

    def slots(self) -> Tuple[int, int]:
        machines: Dict[str, int] = {}
        with _losing("scheduler", *self._gone):
            workers = self._client.nthreads()
        for address, threads in workers.items():
            machine = urlsplit(address).hostname or address
            machines[machine] = machines.get(machine, 0) + threads
        return max(1, sum(machines.values())), max([1, *machines.values()])

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        # The job goes with each task: scattered data would be lost with its workers. Without a key of its arguments, a
        # task is not a result of an earlier one. Dask's own `retries` would repeat tasks that raise, not lost ones.
        with _losing("scheduler", *self._gone):
            return self._ended.watch(self._client.submit(function, *arguments, pure=False))

    def wait(self, handles: List[Any]) -> List[Any]:
        return self._ended.wait(handles)

    def result(self, handle: Any) -> Any:
        if handle.status in ("cancelled", "lost"):
            raise LostEngine(_lost("scheduler", f"a task is {handle.status}"))
        try:
            return handle.result()
        except Exception as error:
            # A task may raise such an error as well.
            if isinstance(error, self._gone) and handle.status != "error":
                raise LostEngine(_lost("scheduler", error)) from error
            raise PointError(_text(error)) from error

    def close(self, handles: List[Any]) -> None:
        # Without a scheduler there is nothing to cancel.
        with contextlib.suppress(Exception):
            if handles:
                self._client.cancel(handles)


class Ray:
    """The module ``ray`` after ``ray.init``. A task whose worker or node is lost is run again."""

    def __init__(self, ray: Any, retries: int) -> None:
        if not ray.is_initialized():
            raise RuntimeError("Ray has not been started\nhint: call ray.init() first")
        self._ray, self._retries, self._gone = ray, retries, (OSError, ray.exceptions.RayError)
        self._full = (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError)
        self._shared: Dict[int, Any] = {}

    def slots(self) -> Tuple[int, int]:
        with _losing("cluster", *self._gone):
            nodes = [int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"]]
        return max(1, sum(nodes)), max([1, *nodes])

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        # Objects that are no numbers are stored once. The driver is their owner, so they outlive workers.
        with _losing("cluster", *self._gone):
            stored = [one if isinstance(one, int) else self._once(one, self._put) for one in arguments]
            return self._once(function, self._task).remote(*stored)

    def _put(self, one: Any) -> Any:
        try:
            return self._ray.put(one)
        except self._full as error:
            hint = "hint: with a larger store or disk, the same call runs the points that are not complete"
            raise RuntimeError(f"Ray cannot store the job: {_text(error)}\n{hint}") from error

    def _task(self, function: Callable[..., Any]) -> Any:
        options = {"num_cpus": 1, "max_retries": self._retries, "retry_exceptions": [OSError]}
        return self._ray.remote(**options)(function)

    def _once(self, one: Any, share: Callable[[Any], Any]) -> Any:
        if id(one) not in self._shared:
            # The object is kept, so that no other one has its id.
            self._shared[id(one)] = (one, share(one))
        return self._shared[id(one)][1]

    def wait(self, handles: List[Any]) -> List[Any]:
        with _losing("cluster", *self._gone):
            self._ray.wait(handles, num_returns=1, timeout=PERIOD)
            return list(self._ray.wait(handles, num_returns=len(handles), timeout=0)[0])

    def result(self, handle: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(handle)
        except (errors.RayTaskError, errors.WorkerCrashedError, errors.OutOfMemoryError, errors.NodeDiedError) as error:
            raise PointError(_text(error)) from error
        except errors.RayError as error:
            raise LostEngine(_lost("cluster", error)) from error

    def close(self, handles: List[Any]) -> None:
        for handle in handles:
            # Without a cluster there is nothing to cancel.
            with contextlib.suppress(Exception):
                self._ray.cancel(handle)
        self._shared.clear()


@contextlib.contextmanager
def _losing(what: str, *errors: Type[BaseException]) -> Iterator[None]:
    """Raises LostEngine for these errors."""
    try:
        yield
    except errors as error:
        raise LostEngine(_lost(what, error)) from error


def _lost(what: str, error: object) -> str:
    return f"the {what} ended: {error}\nhint: the same call with a new one runs the points that are not complete"


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def engine(client: Any, retries: int) -> Engine:
    """The engine of a client."""
    if client is None:
        return Executor()
    if isinstance(client, concurrent.futures.Executor):
        return Executor(client)
    if client == "ray" or isinstance(client, ModuleType) and client.__name__ == "ray":
        import ray

        return Ray(ray, retries)
    # An object can be a client only if its library has been imported.
    distributed = sys.modules.get("distributed")
    if distributed is not None and isinstance(client, distributed.Client):
        return Dask(client)
    raise TypeError(
        f"weir.sweep cannot run points on {client!r}\n"
        "hint: a client is an executor of concurrent.futures, a distributed.Client, the module ray, or None"
    )
