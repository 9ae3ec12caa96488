"""Training on the workers of a Dask cluster, and recommendations for many rows by all of them.

It needs Dask with its scheduler: ``pip install dsstne[dask]``. Workers need dsstne in the same version.

- :func:`fit` trains one model as one task on one worker, with all devices that the worker gives it, and waits.
- :func:`submit` does not wait: it returns a :class:`Job`, so that several models are trained at the same time.
- :func:`search` searches for the best settings of a network, as :func:`dsstne.search`, with a trial as a task.
- :func:`recommend` and :func:`predict` compute all rows of a matrix on all workers and write Parquet files.

See docs/dask.md for how to start workers, and for what happens when they die.

Example:
    >>> import distributed, dsstne.dask, scipy.sparse
    >>> X = scipy.sparse.random_array((200, 50), density=0.1, format="csr", rng=0)
    >>> with distributed.Client(processes=False, dashboard_address=None) as client:  # doctest: +SKIP
    ...     model = dsstne.dask.fit(client, X, hidden=[16], epochs=2)
    ...     jobs = [dsstne.dask.submit(client, X, hidden=[16], epochs=2, seed=seed) for seed in range(3)]
    ...     models = [job.result() for job in jobs]
"""

from __future__ import annotations

import inspect
import uuid
import weakref
from typing import TYPE_CHECKING, Any

from dsstne import _checks, _dask_cluster, _dask_files, _dask_jobs, _dask_search
from dsstne._dask_cluster import ask, client_of, failure
from dsstne._dask_data import Parcel, path_of
from dsstne._dask_files import Written
from dsstne._dask_rows import RowsOf
from dsstne._dask_session import Session, Task, UnreachableError
from dsstne._layers import nearest
from dsstne._search_run import Arguments
from dsstne.api import fit as _fit
from dsstne.errors import CancelledError, InvalidArgumentError, MissingFileError
from dsstne.model import Model, load
from dsstne.serving import OpenPredictor

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Job", "RowsOf", "Written", "fit", "predict", "recommend", "search", "submit"]

_PREFIX = "dsstne-"  # of the keys of tasks
_DATA = ("X", "targets", "validation")  # arguments that are data


class Job:
    """A training under way on a worker; :func:`dsstne.dask.submit` makes it.

    Keep the object: a job that nobody refers to is cancelled, as Dask does with its futures.

    Example:
        >>> job = dsstne.dask.submit(client, X, epochs=20)  # doctest: +SKIP
        >>> job.done()  # doctest: +SKIP
        False
        >>> model = job.result()  # doctest: +SKIP
    """

    def __init__(self, session: Session, task: Task, host: str | None, limit: int) -> None:
        self._session, self._task, self._host, self._limit = session, task, host, limit
        self._cancelled = False
        _jobs.add(self)

    @property
    def key(self) -> str:
        """The name that Dask gives its task, also on its dashboard; another one after the task was sent again."""
        return str(self._task.future.key)

    def done(self) -> bool:
        """Reports whether the job has ended: with a model, with an error or by :meth:`cancel`."""
        return self._cancelled or self._task.done

    def cancel(self) -> None:
        """Ends the job; a training stops after its current step, which :meth:`result` does not wait for."""
        self._cancelled = True
        if self._session.client.status == "running":
            self._task.cancel()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the end; returns the exception that :meth:`result` would raise, or None.

        Args:
            timeout: Seconds to wait at most; None = as long as it takes.

        Raises:
            TimeoutError: The job is still under way after this time.
        """
        timeout = None if timeout is None else _checks.duration(timeout, "timeout")
        if self._cancelled:
            return CancelledError(f"{self._task.what} was cancelled")
        limited = timeout is not None
        with _dask_jobs.node_given_up(_stopper(), limited), _dask_cluster.slot_given_up(limited):
            try:
                self._session.settle([self._task], timeout)
            except CancelledError:  # of the task that calls, which may wait for the slot of this job below
                self.cancel()
                raise
        future = self._task.future
        return None if future.status == "finished" else failure(self._session.client, future, self._task.what)

    def result(self, timeout: float | None = None) -> Model:
        """Waits for the end and returns the model, or whatever the function of the job has returned.

        Inside a task of Dask, the task gives up its slot while it waits. With a timeout it does not wait for another
        slot afterwards, and goes on beside the other tasks of its worker.

        Args:
            timeout: Seconds to wait at most; None = as long as it takes.

        Raises:
            TimeoutError: The job is still under way after this time, and goes on.
            CancelledError: The job was cancelled.
            ClusterError: The worker died more often than ``retries`` allows, its data are lost, no suitable worker is
                left, or the scheduler is gone.
            DsstneError: The function raised it on the worker; its attribute ``model`` is None.
        """
        while True:
            error = self.exception(timeout)
            if error is not None:
                raise error from None
            try:
                made = self._fetch()
                break
            except UnreachableError:
                self._task.forget(self._task.future)
        if made.path is None:
            return made.value  # type: ignore[no-any-return]
        try:
            return load(made.path)
        except MissingFileError as missing:
            raise MissingFileError(
                f"{self._task.what}: the worker wrote the model to {made.path}, which this process does not see; give "
                "a folder= that both see, or load it where it is",
                missing.errno or 0,
                made.path,
            ) from None

    def _fetch(self) -> Any:
        """Gets the result from its worker: large ones not by way of the scheduler."""
        key = self._task.future.key
        size = ask(self._session.client, "nbytes", keys=[key], summary=False)[key]
        return self._session.gather([self._task], direct=size > self._limit or None)[0]

    def __repr__(self) -> str:
        state = "cancelled" if self._cancelled else self._task.future.status
        return f"Job({self.key}: {'under way' if state == 'pending' else state})"


_jobs: weakref.WeakSet[Job] = weakref.WeakSet()


def _stopper() -> Callable[[], None]:
    return _dask_jobs.stopper(*_dask_cluster.current_task())


def fit(client: Any, X: Any, targets: Any = None, **options: Any) -> Model:
    """Trains a model on a worker of a Dask cluster, as :func:`dsstne.fit` does here, and waits for it.

    It is ``submit(client, X, targets, **options).result()``. Ctrl-C stops the training on the worker, too.

    Args:
        client: A client of the cluster; None = that of this process, and inside a task of Dask that of its worker.
        X: The data, as for :func:`submit`.
        targets: Target matrix, in one of the same forms; None = X.
        **options: Options of :func:`submit` and of :func:`dsstne.fit`, such as ``hidden``, ``epochs``, ``devices``,
            ``checkpoint`` or ``callbacks``.

    Returns:
        The model.

    Raises:
        ClusterError: There are no workers, the worker died, its data are lost, or the scheduler is gone.
        InvalidArgumentError: No worker has these resources or this name, or an option is not valid.
        MissingFileError: The worker does not see the path of the data.
        KeyboardInterrupt: Ctrl-C.

    Example:
        >>> model = dsstne.dask.fit(client, "/shared/clicks.arrow", hidden=[512])  # doctest: +SKIP
    """
    job = submit(client, X, targets, **options)
    try:
        return job.result()
    except BaseException:
        job.cancel()
        raise


def submit(
    client: Any,
    X: Any,
    targets: Any = None,
    *,
    function: Callable[..., Any] = _fit,
    resources: Mapping[str, float] | None = None,
    workers: Sequence[str] | str | None = None,
    share: bool = False,
    retries: int = 0,
    folder: str | os.PathLike[str] | None = None,
    limit: int = 16_000_000,
    **options: Any,
) -> Job:
    """Begins to train a model on a worker of a Dask cluster, without waiting for it.

    One task trains the model on one worker. Start one worker on each node for this, with all processors and all CUDA
    devices of the node: ``dask worker ADDRESS --nworkers 1 --resources "GPU=8"``.

    *Which worker.* With ``resources``, Dask's scheduler finds a worker that has so much left, and jobs wait in its
    queue until there is one. Without it, a job has a node to itself: it goes to a node without a job if there is one,
    and jobs that meet on a node take turns. A job that waits for its turn has a thread of its worker.

    *Devices.* By default ("auto") a job uses the first CUDA device that its worker sees, as workers of dask-cuda
    expect; ``devices="all"`` uses all. With ``resources={"GPU": n}`` the default is all devices if n is the whole of
    the worker's ``GPU``. If n is less, it is n devices that other jobs of the worker do not use, provided that its
    ``GPU`` is the number of CUDA devices that it sees.

    *Threads.* By default a job computes with the threads of its worker (``--nthreads``), or with its share of them
    if it takes a share of a resource.

    Args:
        client: A client of the cluster; None = that of this process, and inside a task of Dask that of its worker.
        X: Interaction matrix. Either the path of a file of :meth:`dsstne.Dataset.save`, or a Dataset opened from one,
            which all workers must see: they map the file into memory, and nothing is sent. Or a future, or a list of
            futures or ``dask.delayed``, of CSR matrices, which are blocks of rows; or a ``dask.array`` or ``dask.bag``
            of CSR matrices, divided by rows. Or a matrix of this process, a Dataset or Interactions, which are sent to
            one worker for each call. A worker that trains joins the blocks, once for jobs that follow each other. For
            several inputs, a mapping from their names to these.
        targets: Target matrix, in one of the same forms; None = X. ``validation`` also takes these forms; a pair of
            them must be a tuple.
        function: The function that makes the model on the worker: :func:`dsstne.fit`, another one of this package such
            as :func:`dsstne.linear` or :func:`dsstne.auto`, or one of your own that workers can import or cloudpickle
            can send. Its first parameter must be called X.
        resources: What the job takes of the resources of one worker, such as ``{"GPU": 8}``.
        workers: Addresses, names or hosts of the workers that may do the job; None = any.
        share: Do not wait for other jobs of the node.
        retries: How often the job may begin again, on another worker, after its worker died or froze. With
            ``checkpoint=``, a path that all workers see, it goes on from there. Dask itself gives up after a few deaths
            (its setting ``distributed.scheduler.allowed-failures``, 3). A matrix of this process is sent to all
            workers then, and again if it is lost.
        folder: A folder that workers and this process see: models above ``limit`` are written there, as files that
            stay, and loaded by :meth:`Job.result`. None = they come from their worker directly, or through the
            scheduler if this process cannot connect to it.
        limit: Bytes of a model up to which it comes through the scheduler. The ``model`` of an error comes only up to
            this size.
        **options: Options of the function, such as ``hidden`` or ``checkpoint``. Callbacks are sent to the worker by
            cloudpickle; what they change of themselves stays there.

    Returns:
        The job.

    Raises:
        ClusterError: There are no workers, the client is closed, or the scheduler does not answer.
        InvalidArgumentError: No worker has these resources or this name, X has another type, or an option is unknown.

    Example:
        >>> jobs = [dsstne.dask.submit(client, path, hidden=[n]) for n in (256, 512)]  # doctest: +SKIP
        >>> best = max((job.result() for job in jobs), key=score)  # doctest: +SKIP
    """
    client = client_of(client)
    _check_options(function, {**options, **({} if targets is None else {"targets": targets})})
    share, retries = _checks.boolean(share, "share"), _checks.integer(retries, "retries", 0)
    called = getattr(function, "__name__", "function")
    key = f"{_PREFIX}{called}-{uuid.uuid4().hex[:12]}"
    session = Session(client, workers, resources, f"job {key}")
    host, near = _quietest(session, workers)
    parcel = Parcel(session, copies=retries > 0)
    given = {"X": X, **({} if targets is None else {"targets": targets})}
    given |= {name: options.pop(name) for name in _DATA if name in options}
    data = {name: parcel.add(one, name, pair=name == "validation") for name, one in given.items() if one is not None}
    if "X" not in data:
        raise InvalidArgumentError("X is None; expected data")
    work = _dask_jobs.Work(
        what=session.what,
        call=_dask_jobs.pack(function, options),
        data=data,
        resources=session.placement.resources or {},
        share=share,
        retries=retries,
        folder=None if folder is None else path_of(folder, "folder"),
        limit=_checks.integer(limit, "limit", 0),
    )
    task = _dask_jobs.sent(session, work, parcel, key, near, options.get("checkpoint"))
    return Job(session, task, host, work.limit)


def _check_options(function: Any, options: Mapping[str, Any], without: Sequence[str] = ("X",)) -> None:
    """Raises an error about an option that the function does not have, before anything is sent."""
    if not callable(function):
        raise InvalidArgumentError(f"function must be a function such as dsstne.fit, not {_checks.shown(function)}")
    known = {name: one for name, one in _dask_jobs.parameters_of(function).items() if name not in without}
    takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values())
    for name in options:
        if name not in known and not takes_all:
            called = getattr(function, "__name__", "the function")
            raise InvalidArgumentError(f"{called}() has no option {name!r}; {nearest(name, known)}")
    single = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for name, one in known.items():
        if one.default is one.empty and one.kind in single and name not in options:
            raise InvalidArgumentError(f"{getattr(function, '__name__', 'the function')}() also needs {name}=")


def _quietest(session: Session, workers: Any) -> tuple[str | None, list[str]]:
    """Returns the host with the fewest jobs and its workers, if nothing else says where a job runs."""
    if workers is not None or session.placement.resources:
        return None, []
    hosts: dict[str, list[str]] = {}
    for address in session.placement.eligible:
        hosts.setdefault(address.rpartition(":")[0], []).append(address)
    if len(hosts) == 1:
        return None, []
    jobs = dict.fromkeys(hosts, 0)
    mine = [job for job in list(_jobs) if job._session.client is session.client and not job.done()]
    for job in mine:  # which the scheduler may not have begun yet
        if job._host in jobs:
            jobs[job._host] += 1
    listed = {job.key for job in mine}
    for address, keys in ask(session.client, "processing").items():
        others = [key for key in keys if str(key).startswith(_PREFIX) and str(key) not in listed]
        host = address.rpartition(":")[0]
        if host in jobs:
            jobs[host] += len(others)
    host = min(jobs, key=lambda name: jobs[name])
    return host, hosts[host]


def recommend(
    client: Any,
    model: Model | str | os.PathLike[str],
    X: Any,
    k: int | None = None,
    *,
    output: str | os.PathLike[str],
    rows_per_partition: int = 100_000,
    overwrite: bool = False,
    resources: Mapping[str, float] | None = None,
    workers: Sequence[str] | str | None = None,
    **options: Any,
) -> Written:
    """Recommends items for all rows on the workers of a Dask cluster, into Parquet files, one for each partition.

    The files have the columns ``row`` (int64: the number of the row in X, or its name if X has names), ``items`` (lists
    of int32, or of names if the model has them) and ``scores`` (lists of float32), best first. A list is shorter if no
    item is left. A worker writes a file beside its place and then renames it, so a file is complete or not there. The
    partition of a worker that died is done again by another, with the same bytes.

    It needs pyarrow on the workers. Each worker process opens the model once.

    Args:
        client: A client of the cluster; None = that of this process, and inside a task of Dask that of its worker.
        model: A model, which is sent to each worker once, or the path of a model file that all workers see.
        X: The rows, in a form of :func:`submit`. A future, an element of a list or a block is a partition; a file or a
            matrix is divided.
        k: Length of the lists; None = 10, or all items if there are fewer.
        output: Folder for the files ``part-00000.parquet`` and so on, which all workers see. It is made if its parent
            is there.
        rows_per_partition: Rows of a partition of a file or a matrix.
        overwrite: Replace the partitions that the folder has from another call; otherwise they are an error.
        resources, workers: As for :func:`submit`, for each partition.
        **options: Options of :class:`dsstne.OpenPredictor`, such as ``filter_items``, ``exclude_seen`` or ``devices``.

    Returns:
        A list with a dict for each partition, which prints as a table: ``partition``, ``file`` (its path), ``rows`` and
        ``seconds``.

    Raises:
        ClusterError: There are no workers, they died again and again, data are lost, or the scheduler is gone.
        InvalidArgumentError: Partitions have different numbers of columns, the folder has partitions, or an argument is
            not valid.
        MissingFileError: A worker does not see a path.
        KeyboardInterrupt: Ctrl-C; finished files stay.

    Example:
        >>> dsstne.dask.recommend(client, model, "/shared/clicks.arrow", output="/shared/lists")  # doctest: +SKIP
        >>> pyarrow.parquet.read_table("/shared/lists")  # doctest: +SKIP
    """
    if k is not None:
        k = _checks.integer(k, "k", 1)
    _check_options(OpenPredictor, options, without=("model", "k", "wait"))
    spec = {"kind": "recommend", "k": k, "options": options}
    return _dask_files.write(client, model, X, spec, output, rows_per_partition, overwrite, resources, workers)


def predict(
    client: Any,
    model: Model | str | os.PathLike[str],
    X: Any,
    layer: str | None = None,
    *,
    output: str | os.PathLike[str],
    rows_per_partition: int = 100_000,
    overwrite: bool = False,
    resources: Mapping[str, float] | None = None,
    workers: Sequence[str] | str | None = None,
    **options: Any,
) -> Written:
    """Computes the values of a layer for all rows on the workers of a Dask cluster, into Parquet files.

    As :func:`recommend`, but the files have the columns ``row`` and ``values``, a list of fixed length of float32: all
    scores of a row, or the units of a hidden layer, which are the vector of a user.

    Args:
        client: A client of the cluster; None = that of this process, and inside a task of Dask that of its worker.
        model: A model, which is sent to each worker once, or the path of a model file that all workers see.
        X: The rows, in a form of :func:`submit`.
        layer: Name of the layer; None = the output. See :meth:`dsstne.Model.predict`.
        output: Folder for the files, which all workers see.
        rows_per_partition: Rows of a partition of a file or a matrix.
        overwrite: Replace the partitions that the folder has from another call; otherwise they are an error.
        resources, workers: As for :func:`submit`, for each partition.
        **options: Options of :meth:`dsstne.Model.predict`, such as ``devices`` or ``batch_size``.

    Returns:
        A list with a dict for each partition, as :func:`recommend`.

    Raises:
        NotFoundError: The model has no such layer. Otherwise as :func:`recommend`.

    Example:
        >>> dsstne.dask.predict(client, model, X, "hidden1", output="/shared/vectors")  # doctest: +SKIP
    """
    if layer is not None:
        _checks.text(layer, "layer")
    _check_options(Model.predict, options, without=("self", "X", "layer", "rows"))
    spec = {"kind": "predict", "layer": layer, "options": options}
    return _dask_files.write(client, model, X, spec, output, rows_per_partition, overwrite, resources, workers)


def search(
    client: Any,
    X: Any,
    space: Any,
    *,
    store: str | os.PathLike[str],
    budget: Any = "5 min",
    metric: str = "ndcg@20",
    times: Any = None,
    validation: Any = None,
    epochs: int | str = "auto",
    rungs: int | str = "auto",
    eta: int = 3,
    brackets: int = 1,
    jobs: int | None = None,
    refit: bool = True,
    disk_limit: int | None = None,
    sampler: Callable[[int], Any] | None = None,
    seed: int = 0,
    resources: Mapping[str, float] | None = None,
    workers: Sequence[str] | str | None = None,
    devices: Any = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    progress: bool = True,
    **options: Any,
) -> Model:
    """Searches for the best settings of a network on the workers of a Dask cluster, as :func:`dsstne.search` does here.

    A trial is a task. As soon as it is among the best third of those that have finished its rung, it goes on; it does
    not wait for the rest (asynchronous successive halving). With ``brackets`` it is Hyperband. With a budget of trials
    and a fixed number of ``jobs``, the result is the same on every cluster. Only settings and results pass through the
    scheduler, some kilobytes for each task: data and paused trials stay in ``store``, and a trial goes on at the worker
    that has it in its memory. A worker that dies, or gives no sign of life for 20 s, is replaced by another one; a
    trial goes on from its checkpoint, or else from its beginning, with the same bits.

    If the cluster ends, the same call on the next one goes on with the search.

    Args:
        client: A client of the cluster; None = that of this process, and inside a task of Dask that of its worker.
        X: Interaction matrix, in a form of :func:`submit`; :class:`dsstne.Interactions` and saved datasets have names.
        space: See :func:`dsstne.search`.
        store: A folder that this process and all workers see.
        budget, metric, epochs, rungs, eta, brackets, refit, disk_limit, sampler, seed: See :func:`dsstne.search`.
        times, validation: See :func:`dsstne.search`; in a form of :func:`submit`.
        jobs: Number of trials at the same time; None = as many as there are workers, also of those that come later.
            With a budget of trials, the result follows from the arguments and this number, for None the number of
            workers at the start, whatever workers do. A search that goes on takes the number from before.
        resources, workers: See :func:`submit`, for each trial.
        devices, threads: As in :func:`dsstne.fit`, for each trial; None = as for :func:`submit`.
        memory_limit: Maximum bytes of each training; a trial whose plan needs more fails.
        progress: Show a progress bar in terminals and notebooks, or a line every 30 seconds if stderr is a file.
        **options: Arguments of :func:`dsstne.fit` that all trials have.

    Returns:
        The model, with a report as :func:`dsstne.search` has it. After Ctrl-C, or if the refit fails, also because the
        scheduler is gone, it is the best one as it was tried, if the store has its file; the report says so. The same
        call then makes up for the rest.

    Raises:
        ClusterError: There are no workers, or the scheduler is gone while trials train; the same call goes on.
        BusyError: Another search is using the store.
        DsstneError: As :func:`dsstne.search`.

    Example:
        >>> space = {"hidden": [256, 512], "learning_rate": (1e-4, 1e-2, "log")}
        >>> model = dsstne.dask.search(client, "/shared/clicks.arrow", space, store="/shared/search")  # doctest: +SKIP
    """
    where = {"devices": devices, "threads": threads, "memory_limit": memory_limit}
    arguments = Arguments(
        space, sampler, budget, options, where, metric, epochs, rungs, eta, brackets, refit, disk_limit, seed, progress
    )
    return _dask_search.search(client, X, times, validation, arguments, store, jobs, resources, workers)
