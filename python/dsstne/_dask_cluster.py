"""A cluster of Dask as a client sees it: its workers, where tasks may run, and failures of Dask in words."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from dsstne import _checks
from dsstne.errors import ClusterError, DsstneError, InvalidArgumentError

try:
    import distributed as distributed  # the other modules take it from here
except ImportError as error:
    raise ImportError("dsstne.dask needs Dask and its scheduler: pip install dsstne[dask]") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 20.0  # seconds in which the scheduler must answer

_TIMEOUTS = (asyncio.TimeoutError, concurrent.futures.TimeoutError, TimeoutError)
CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError)

FAILURES = (*_TIMEOUTS, *CANCELLED)  # of fetching a result, besides OSError

_LOST = "the connection to the scheduler is lost, or the client is closed; the work was not finished: connect again"
_DIED = (
    "Most often such a worker took more memory than its limit, or a library crashed. Its log says more. Give the "
    "workers more memory, or the call memory_limit="
)


class Placement(NamedTuple):
    """Where tasks may run.

    Attributes:
        workers: Addresses of the workers, or None = any.
        resources: What a task takes of the resources of a worker, or None.
        eligible: Addresses of all workers that could run a task now.
    """

    workers: list[str] | None
    resources: dict[str, float] | None
    eligible: list[str]


def client_of(client: Any) -> Any:
    """Returns a client that can be used; None = that of the task that calls, or else of this process."""
    if client is None:
        try:
            client = distributed.get_client()
        except ValueError:
            raise ClusterError(
                "there is no client of Dask in this process; give one: distributed.Client(...)"
            ) from None
    if not isinstance(client, distributed.Client):
        raise InvalidArgumentError(f"client must be a distributed.Client or None, not {_checks.shown(client)}")
    if client.asynchronous:
        raise InvalidArgumentError("client is asynchronous, and dsstne.dask waits; use a Client of its own for it")
    check_open(client)
    return client


def check_open(client: Any) -> None:
    if client.status not in ("running", "newly-created"):
        raise ClusterError(f"the client is {client.status}: {_LOST}")


def ask(client: Any, operation: str, **arguments: Any) -> Any:
    """Asks the scheduler, and waits for the answer for a limited time.

    Args:
        client: The client.
        operation: What the scheduler shall do, a name of its handlers.
        **arguments: Those of the handler.

    Raises:
        ClusterError: The scheduler does not answer, or the client is closed.
    """
    check_open(client)
    try:
        return client.sync(getattr(client.scheduler, operation), callback_timeout=PATIENCE, **arguments)
    except (OSError, RuntimeError, *FAILURES) as error:
        raise ClusterError(f"the scheduler does not answer ({type(error).__name__}): {_LOST}") from None


def workers_of(client: Any) -> dict[str, dict[str, Any]]:
    """Asks the scheduler for the workers; returns what it knows of each, by address."""
    every = {"n_workers": -1} if "n_workers" in inspect.signature(client.scheduler_info).parameters else {}
    return dict(ask(client, "identity", **every)["workers"])


def resources_of(resources: Any) -> dict[str, float] | None:
    """Checks what a task wants of the resources of a worker."""
    if resources is None:
        return None
    if not _checks.is_mapping(resources):
        raise InvalidArgumentError(f"resources must be a mapping such as {{'GPU': 8}}, not {_checks.shown(resources)}")
    wanted = {
        _checks.text(name, "resources"): _checks.duration(n, f"resources[{name!r}]") for name, n in resources.items()
    }
    return wanted or None


def place(client: Any, workers: Any, resources: Any, known: dict[str, dict[str, Any]] | None = None) -> Placement:
    """Finds the workers that may run a task.

    Args:
        client: The client.
        workers: Addresses, names or hosts of workers; None = any.
        resources: What a task takes of the resources of a worker.
        known: What :func:`workers_of` returns; None = ask for it.

    Raises:
        ClusterError: There are no workers.
        InvalidArgumentError: There are workers, but none of these or none with these resources.
    """
    wanted = resources_of(resources)
    known = workers_of(client) if known is None else known
    if not known:
        raise ClusterError(
            f"the scheduler {client.scheduler.address} has no workers; start one on each node, as in "
            f"`dask worker {client.scheduler.address} --nworkers 1`"
        )
    chosen = known if workers is None else _named(workers, known)
    enough = [
        address
        for address, info in chosen.items()
        if all(info.get("resources", {}).get(name, 0) >= n for name, n in (wanted or {}).items())
    ]
    if wanted and not enough:
        has = sorted({shown(info.get("resources", {})) for info in chosen.values()})
        raise InvalidArgumentError(
            f"resources: a job runs on one worker, and none of the {len(chosen)} workers has {shown(wanted)}; "
            f'they have {" or ".join(has[:5])} each; `dask worker --resources "{shown(wanted)}"` starts one'
        )
    return Placement(None if workers is None else enough, wanted, enough)


def shown(resources: dict[str, float]) -> str:
    return " ".join(f"{name}={amount:g}" for name, amount in sorted(resources.items())) or "no resources"


def _named(workers: Any, known: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the workers with these addresses, names or hosts."""
    names = [workers] if isinstance(workers, (str, int)) else _checks.several(workers, "workers", "a list of names")
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        those = {
            address: info
            for address, info in known.items()
            if _word(name) in (address, str(info.get("name")), str(info.get("host")))
        }
        if not those:
            listed = ", ".join(str(info.get("name")) for info in list(known.values())[:8])
            raise InvalidArgumentError(
                f"workers: there is no worker with the address, name or host {_checks.shown(name)}; "
                f"the {len(known)} workers are named {listed}"
            )
        found |= those
    if not found:
        raise InvalidArgumentError("workers is an empty list; None = any worker")
    return found


def _word(name: Any) -> str:
    """Returns an element of ``workers`` as a str; Dask names its workers by numbers, too."""
    is_name = isinstance(name, str) or (isinstance(name, int) and 0 <= name < 1 << 31)
    return str(name) if is_name else ""


def failure(client: Any, future: Any, what: str) -> BaseException:
    """Returns the exception of a future that is not finished but done, in words and without the frames of Dask."""
    try:
        future.result(timeout=PATIENCE)
    except BaseException as raised:
        if isinstance(raised, KeyboardInterrupt):
            raise
        error = raised
    else:
        return ClusterError(f"{what}: the scheduler reported a failure and then a result")
    made = in_words(client, error, what)
    made.__traceback__ = made.__cause__ = made.__context__ = None
    return made


def in_words(client: Any, error: BaseException, what: str) -> BaseException:
    """Returns an exception of Dask as one of this package; errors of this package and of the user's code stay.

    Who has cancelled the work does not ask.
    """
    if isinstance(error, DsstneError):
        return error
    if isinstance(error, distributed.KilledWorker):
        worker = getattr(error.last_worker, "address", error.last_worker)
        return ClusterError(
            f"{what}: {error.allowed_failures + 1} workers died one after the other while they did it, the last one "
            f"was {worker}. {_DIED}"
        )
    if isinstance(error, CANCELLED):
        reason = getattr(error, "reason", "")
        if client.status != "running" or "connection-lost" in reason:
            return ClusterError(f"{what}: {_LOST}")
        if "restart" in reason:
            return ClusterError(f"{what}: the workers were restarted, and the work was not finished")
        return ClusterError(
            f"{what}: Dask has dropped it ({reason or 'no reason given'}): its data were on a worker that died, or "
            "another client cancelled it. Give the path of a saved dataset, which outlives workers, or retries=, with "
            "which a matrix of this process is sent again"
        )
    if type(error).__module__.split(".")[0] in ("distributed", "dask"):
        return ClusterError(f"{what}: {type(error).__name__}: {' '.join(str(error).split()):.400}")
    return error


# ---- inside a task ----


def current_task() -> tuple[Any, Any]:
    """Returns the worker and the key of the task that calls; (None, None) outside of tasks."""
    try:
        worker = distributed.get_worker()
        return worker, worker.get_current_task()
    except (ValueError, KeyError, AttributeError):
        return None, None


def is_wanted(worker: Any, key: Any) -> bool:
    """Reports whether a running task is still wanted: nobody cancelled it, and its worker is not being closed.

    It reads the worker's own state and sends nothing. The scheduler tells the worker when a client cancels a task,
    drops the last reference to it, or is gone.
    """
    if worker.status.name in ("closing", "closed", "failed", "stopped"):
        return False
    task = worker.state.tasks.get(key)
    return task is not None and task.state in ("executing", "long-running")


def own_task() -> Callable[[], bool]:
    """Returns a function that reports whether the task that calls is still wanted; True outside of tasks."""
    worker, key = current_task()
    return lambda: worker is None or is_wanted(worker, key)


@contextmanager
def slot_given_up(limited: bool = False) -> Iterator[None]:
    """Gives up the slot of the task that calls for the time of the block, in which it waits for other tasks.

    A lock that other tasks wait for in their slots must be given up before, and taken again after the block.

    Args:
        limited: Whether the caller has promised to return at some time. The task then does not wait for a slot after
            the block, because the tasks that have the slots may take long, and goes on beside them.
    """
    worker, key = current_task()
    if worker is None:
        yield
        return
    try:
        distributed.secede()
    except KeyError:  # the task has left its slot already, as in the block of a worker_client()
        yield
        return
    try:
        yield
    finally:
        if not limited and is_wanted(worker, key):  # otherwise it is about to end, and need not wait for a slot
            with suppress(RuntimeError):  # the worker is being closed
                distributed.rejoin()
