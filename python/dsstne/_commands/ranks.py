"""Commands that mpirun or srun starts several times: rank 0 does the work, with a device for each rank.

DSSTNE needs a process for each GPU, and its users start ``mpirun -np 4 train ...``. Here one process uses all devices.
So the other ranks only wait until rank 0 ends, because a launcher may end a job when its first process ends, and
because a script may go on to a command that reads what this one writes.

Rank 0 listens on a socket, and the others connect to it. Rank 0 answers with its exit status when it has the
connections of all ranks; a rank that began late finds it still there. If rank 0 is killed, the system closes the
connections. The socket is in Linux's abstract namespace: it is not a file that somebody would have to remove. Its name
is a digest of what the ranks have in common, which is the job of the launcher and the command line. Ranks with
different command lines therefore do not meet, and that is an error: each of them was to do something else.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import socket
import struct
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_PATIENCE = 30.0  # seconds after its start for which rank 0 waits for ranks that have not connected
_SEARCH = 120.0  # seconds for which a rank looks for rank 0


class _Launcher(NamedTuple):
    """What a launcher tells its processes by environment variables.

    Attributes:
        program: Its name for messages.
        ranks: Variable with the number of processes.
        rank: Variable with the number of this process.
        local: Variable with the number of processes on this host, if there is one.
        hosts: Variable with the number of hosts, if there is one.
        job: Variables that together name the job. Where one is not set, the process that started the ranks does.
        remedy: How to start one process.
    """

    program: str
    ranks: str
    rank: str
    local: str | None
    hosts: str | None
    job: tuple[str, ...]
    remedy: str


# The first whose numbers are all there counts. mpirun may have been started by srun, whose variables then describe the
# processes of mpirun itself. srun may set PMI_SIZE and PMI_RANK, but not MPI_LOCALNRANKS. A shell of salloc and a
# script of sbatch have SLURM_NTASKS and sometimes SLURM_PROCID, but are one process: only srun sets the variables of a
# step.
_LAUNCHERS = (
    _Launcher(
        "mpirun",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        None,
        ("PMIX_NAMESPACE",),
        "mpirun -np 1",
    ),
    _Launcher("mpiexec", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", None, (), "mpiexec -n 1"),
    _Launcher(
        "srun",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_PROCID",
        None,
        "SLURM_STEP_NUM_NODES",
        ("SLURM_JOB_ID", "SLURM_STEP_ID"),
        "srun --ntasks=1",
    ),
)


class Job(NamedTuple):
    """The processes that a launcher has started together, of which this is one.

    Attributes:
        launcher: The launcher.
        ranks: Number of the processes, at least 2.
        rank: Number of this process.
        is_local: Whether all of them are on this host, as far as that is known.
    """

    launcher: _Launcher
    ranks: int
    rank: int
    is_local: bool


def job_of(environment: Mapping[str, str]) -> Job | None:
    """Returns the job of this process; None if it was started alone."""
    for launcher in _LAUNCHERS:
        needed = (launcher.ranks, launcher.rank, launcher.local, launcher.hosts)
        given = [environment.get(name, "") for name in needed if name is not None]
        if not all(re.fullmatch("[0-9]{1,12}", value) for value in given):
            continue
        ranks, rank = (int(environment[name]) for name in (launcher.ranks, launcher.rank))
        is_local = (launcher.local is None or int(environment[launcher.local]) == ranks) and (
            launcher.hosts is None or int(environment[launcher.hosts]) == 1
        )
        return Job(launcher, ranks, rank, is_local) if ranks > 1 and rank < ranks else None
    return None


def together(command: Sequence[str], work: Callable[[Job | None], int]) -> int:
    """Does the work in rank 0, and returns its exit status in all ranks.

    Args:
        command: The command line.
        work: What to do; it gets the job, or None if this process was started alone.

    Raises:
        InvalidArgumentError: The ranks are on several hosts.
        InvalidStateError: Rank 0 was not found, or has ended without an exit status.
    """
    from dsstne.errors import InvalidArgumentError

    job = job_of(os.environ)
    if job is None:
        return work(None)
    if job.is_local:
        name = _name(job, command)
        return _lead(job, name, work) if job.rank == 0 else _follow(job, name)
    if job.rank == 0:
        raise InvalidArgumentError(
            f"{job.launcher.program} has started {job.ranks} processes on several hosts, and dsstne uses the devices "
            f"of one host; start one process with {job.launcher.remedy}"
        )
    return 1  # rank 0 says why


def devices(given: str | list[str] | None, job: Job | None) -> str | list[str]:
    """Returns the devices to work on: those of the flag, or one for each rank of the job."""
    if given is not None:
        return given
    if job is None:
        return "auto"
    from dsstne.devices import cuda_devices

    found = cuda_devices()[: job.ranks]
    used = ", ".join(found) if found else "the CPU, because no GPU can be used"
    started = f"{job.launcher.program} has started {job.ranks} processes"
    print(f"{started}: the first one works on {used}; the others wait for it", file=sys.stderr, flush=True)
    return found or "cpu"


def _name(job: Job, command: Sequence[str]) -> bytes:
    """Returns the address at which the ranks of a job meet; those of other users have others."""
    launcher = job.launcher
    of = [os.environ.get(name, "") for name in launcher.job]
    parts = [launcher.program, *(of if of and all(of) else [_ancestor(launcher.rank)]), *command]
    digest = hashlib.sha256(b"\0".join(map(os.fsencode, parts))).hexdigest()
    return f"\0dsstne/{os.getuid()}/{digest[:40]}".encode()


def _ancestor(variable: str) -> str:
    """Returns the number of the process that started the ranks: the nearest one without their variable.

    Shells may be between it and a rank. A process whose environment is not readable is another user's, and no shell.
    """
    pid = os.getppid()
    while pid > 1:
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            if f"\0{variable}=".encode() not in b"\0" + environment:
                break
            pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            break
    return str(pid)


def _lead(job: Job, name: bytes, work: Callable[[Job], int]) -> int:
    """Does the work, and tells the other ranks its exit status."""
    from dsstne.errors import InvalidStateError

    until = time.monotonic() + _PATIENCE
    with socket.socket(socket.AF_UNIX) as meeting:
        try:
            meeting.bind(name)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            text = (
                f"rank 0 of this job of {job.launcher.program} runs the same command already; wait until it has ended"
            )
            raise InvalidStateError(text) from None
        meeting.listen(job.ranks)
        status = 1
        try:
            status = work(job)
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else int(error.code is not None)
            raise
        finally:
            interrupted = status >= 128  # as the other ranks are then, too, which may therefore never come
            _tell(meeting, job.ranks - 1, status, 0.0 if interrupted else until)
    return status


def _tell(meeting: socket.socket, others: int, status: int, until: float) -> None:
    """Sends the exit status to all ranks at once: one that went on earlier could meet this command again."""
    connections: list[socket.socket] = []
    try:
        while len(connections) < others:
            meeting.settimeout(max(0.0, until - time.monotonic()))
            try:
                connections.append(meeting.accept()[0])
            except (TimeoutError, BlockingIOError):
                break
    finally:
        for connection in connections:
            with connection:
                try:
                    connection.sendall(bytes([status & 255]))
                except OSError:  # this rank has ended
                    continue


def _follow(job: Job, name: bytes) -> int:
    """Waits for rank 0, and returns its exit status."""
    from dsstne.errors import InvalidStateError

    until = time.monotonic() + _SEARCH
    launcher = job.launcher
    while time.monotonic() < until:
        with socket.socket(socket.AF_UNIX) as meeting:
            try:
                meeting.connect(name)
                if _owner(meeting) != os.getuid():
                    break
                answer = meeting.recv(1)
            except ConnectionRefusedError:
                time.sleep(0.1)
                continue
            except ConnectionResetError:
                answer = b""
        if not answer:
            raise InvalidStateError(
                f"rank 0 of this job of {launcher.program} has ended without an exit status; was it killed?"
            )
        return answer[0]
    raise InvalidStateError(
        f"{launcher.program} has started {job.ranks} processes, and rank {job.rank} does not find rank 0, which does "
        f"the work of all that have the same command line; to run this command on its own, unset {launcher.rank}"
    )


def _owner(connection: socket.socket) -> int:
    """Returns the number of the user at the other end."""
    size = struct.calcsize("3i")
    user: int = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[1]
    return user
