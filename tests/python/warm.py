"""Runs programs in processes of their own that begin with NumPy, SciPy and dsstne imported.

Starting Python and importing them takes longer than most programs of the tests. One process does so, and forks itself
for each program. The first call loads the library, so each program loads its own.

LD_LIBRARY_PATH counts when a process starts, and so does what Go reads of the environment: they are the server's. A
request may add variables that C reads.

This file is both sides: `Server` starts itself as a script.
"""

import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path


class Server:
    """A process that forks itself for each program."""

    def __init__(self, environment):
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environment, "OPENBLAS_NUM_THREADS": "1"},  # others would not survive the fork
            text=True,
        )

    def run(self, code, arguments, variables, timeout):
        """Runs a program with more variables, as subprocess.run with captured output does."""
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in ("stdout", "stderr")]
            request = [code, list(map(str, arguments)), variables, list(map(str, files)), timeout]
            print(json.dumps(request), file=self.process.stdin, flush=True)
            status = json.loads(self.process.stdout.readline())
            output = [file.read_text() for file in files]
        if status is None:
            raise subprocess.TimeoutExpired("a program of a test", timeout, *output)
        return subprocess.CompletedProcess(arguments, os.waitstatus_to_exitcode(status), *output)

    def close(self):
        self.process.communicate()


def serve():
    """Answers each request with the status of its process, or null after the timeout; returns in the process."""
    while line := sys.stdin.readline():
        code, arguments, variables, files, timeout = json.loads(line)
        descriptors = [os.open(file, os.O_WRONLY | os.O_CREAT) for file in files]
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            for standard, descriptor in enumerate([os.open(os.devnull, os.O_RDONLY), *descriptors]):
                os.dup2(descriptor, standard)
            os.environ.update(variables)
            sys.argv = ["-c", *arguments]
            return code
        end = os.pidfd_open(child)
        ended = select.select([end], [], [], timeout)[0]
        with contextlib.suppress(ProcessLookupError):  # the program after its time, or what it has left behind
            os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        for descriptor in (end, *descriptors):
            os.close(descriptor)
        print(json.dumps(status if ended else None), flush=True)
    raise SystemExit


if __name__ == "__main__":
    for module in ("numpy", "scipy.sparse", "dsstne"):
        importlib.import_module(module)
    program = serve()
    exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
