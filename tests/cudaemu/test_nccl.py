"""The stand-in for NCCL: collectives of several emulated devices."""

import ctypes
import threading

import numpy as np
import pytest

from emulator import LIBRARY, pack

RANKS = 3
FLOAT32, BFLOAT16, SUM = 7, 9, 0


class Rank:
    """A device, a stream on it, and a communicator."""

    def __init__(self, driver, device):
        self.driver, self.device = driver, device
        self.context = driver.out("cuDevicePrimaryCtxRetain", device)
        with self:
            self.stream = driver.out("cuStreamCreate", 1)

    def __enter__(self):
        self.driver("cuCtxPushCurrent_v2", self.context)
        return self

    def __exit__(self, *_):
        self.driver("cuCtxPopCurrent_v2", None)

    def upload(self, values):
        with self:
            return self.driver.upload(np.asarray(values, np.float32).tobytes())

    def read(self, address, count):
        with self:
            self.driver("cuStreamSynchronize", self.stream)
            return np.frombuffer(self.driver.download(address, 4 * count), np.float32)


class Nccl:
    def __init__(self, driver):
        self.library = ctypes.CDLL(str(LIBRARY.with_name("libnccl.so.2")))
        self.ranks = [Rank(driver, device) for device in range(RANKS)]
        communicators = (ctypes.c_uint64 * RANKS)()
        assert self.library.ncclCommInitAll(communicators, RANKS, None) == 0
        for rank, communicator in zip(self.ranks, communicators, strict=True):
            rank.communicator = communicator

    def code(self, function, *args):
        return getattr(self.library, function)(*(ctypes.c_uint64(a) if isinstance(a, int) else a for a in args))

    def __call__(self, function, *args):
        assert self.code(function, *args) == 0

    def all_reduce(self, rank, x, count):
        with rank:
            self("ncclAllReduce", x, x, count, FLOAT32, SUM, rank.communicator, rank.stream)

    def grouped(self, work):
        self("ncclGroupStart")
        for rank in self.ranks:
            work(rank)
        self("ncclGroupEnd")

    def close(self):
        for rank in self.ranks:
            self.code("ncclCommDestroy", rank.communicator)
            rank.driver("cuDevicePrimaryCtxReset_v2", rank.device)
            rank.driver("cuDevicePrimaryCtxRelease_v2", rank.device)


@pytest.fixture(params=[0, 1], ids=["at once", "lazy"])
def nccl(driver, request):
    driver.set("lazy", request.param)
    nccl = Nccl(driver)
    yield nccl
    nccl.close()


def values(rank, count=8):
    return np.arange(count, dtype=np.float32) + 100 * rank.device


def test_all_reduce_gives_all_ranks_the_sums(nccl):
    x = {r: r.upload(values(r)) for r in nccl.ranks}
    nccl.grouped(lambda r: nccl.all_reduce(r, x[r], 8))
    expected = sum(values(r) for r in nccl.ranks)
    assert all(np.array_equal(r.read(x[r], 8), expected) for r in nccl.ranks)


def test_all_reduce_sums_as_it_is_told(nccl, monkeypatch):
    numbers = dict(zip(nccl.ranks, ([2**24, 1], [1, 1], [1, 2**24]), strict=True))  # 2^24 + 1 is rounded to 2^24
    sums = {"ranks": [2**24, 2**24 + 2], "ring": [2**24, 2**24], "": [2**24, 2**24], "short": [2**24, 2]}
    for how, expected in sums.items():
        monkeypatch.setenv("DSSTNE_CUDAEMU_SUMS", how)
        x = {r: r.upload(numbers[r]) for r in nccl.ranks}
        nccl.grouped(lambda r, x=x: nccl.all_reduce(r, x[r], 2))
        assert all(r.read(x[r], 2).tolist() == expected for r in nccl.ranks), how


def test_collectives_wait_for_the_work_before_them(nccl):
    x = {r: r.upload(np.zeros(64)) for r in nccl.ranks}

    def add_and_reduce(r):
        with r:
            r.driver.module = r.driver.load(r.driver.image())
            r.driver.launch("example_multiply_add", 1, 64, pack("qqiff", x[r], 64, 1, 1.0, 1.0), stream=r.stream)
        nccl.all_reduce(r, x[r], 64)

    for r in nccl.ranks:  # not in a group: each rank by itself
        add_and_reduce(r)
    assert all(np.all(r.read(x[r], 64) == RANKS) for r in nccl.ranks)


def test_gather_scatter_and_broadcast(nccl):
    x = {r: r.upload(values(r, 6)) for r in nccl.ranks}
    gathered = {r: r.upload(np.zeros(18)) for r in nccl.ranks}
    scattered = {r: r.upload(np.zeros(2)) for r in nccl.ranks}

    def work(r):
        nccl("ncclAllGather", x[r], gathered[r], 6, FLOAT32, r.communicator, r.stream)
        nccl("ncclReduceScatter", x[r], scattered[r], 2, FLOAT32, SUM, r.communicator, r.stream)
        nccl("ncclBroadcast", x[r], x[r], 6, FLOAT32, 1, r.communicator, r.stream)

    nccl.grouped(work)
    everything = np.concatenate([values(r, 6) for r in nccl.ranks])
    total = sum(values(r, 6) for r in nccl.ranks)
    for i, r in enumerate(nccl.ranks):
        assert np.array_equal(r.read(gathered[r], 18), everything)
        assert np.array_equal(r.read(scattered[r], 2), total[2 * i : 2 * i + 2])
        assert np.array_equal(r.read(x[r], 6), values(nccl.ranks[1], 6))


def test_sends_and_receives_around_a_ring(nccl):
    x = {r: r.upload(values(r)) for r in nccl.ranks}
    y = {r: r.upload(np.zeros(8)) for r in nccl.ranks}

    def work(r):
        after, before = (r.device + 1) % RANKS, (r.device - 1) % RANKS
        nccl("ncclRecv", y[r], 8, FLOAT32, before, r.communicator, r.stream)
        nccl("ncclSend", x[r], 8, FLOAT32, after, r.communicator, r.stream)

    nccl.grouped(work)
    for i, r in enumerate(nccl.ranks):
        assert np.array_equal(r.read(y[r], 8), values(nccl.ranks[i - 1]))


def test_collectives_in_captured_graphs_meet_at_each_launch(nccl, driver):
    x = {r: r.upload(np.ones(8)) for r in nccl.ranks}
    execs = {r: captured(nccl, driver, r, x[r]) for r in nccl.ranks}
    for _ in range(2):
        for r in nccl.ranks:
            with r:
                driver("cuGraphLaunch", execs[r], r.stream)
    assert all(np.all(r.read(x[r], 8) == RANKS**2) for r in nccl.ranks)
    for executable in execs.values():
        driver("cuGraphExecDestroy", executable)


def captured(nccl, driver, rank, x):
    with rank:
        driver("cuStreamBeginCapture_v2", rank.stream, 1)
        nccl.all_reduce(rank, x, 8)
        graph = ctypes.c_uint64()
        driver("cuStreamEndCapture", rank.stream, ctypes.byref(graph))
        executable = driver.out("cuGraphInstantiateWithFlags", graph.value, 0)
        driver("cuGraphDestroy", graph.value)
    return executable


@pytest.mark.parametrize("function", ["ncclCommAbort", "ncclCommDestroy"])
def test_a_communicator_ends_when_no_captured_graph_refers_to_it(nccl, driver, function):
    first = nccl.ranks[0]
    executable = captured(nccl, driver, first, first.upload(np.ones(8)))
    ending = threading.Thread(target=nccl, args=(function, first.communicator))
    ending.start()
    ending.join(0.2)
    assert ending.is_alive()
    if function == "ncclCommAbort":
        with first:
            driver("cuGraphLaunch", executable, first.stream)  # nobody is waited for any more
            driver("cuStreamSynchronize", first.stream)
    driver("cuGraphExecDestroy", executable)
    ending.join(10)
    assert not ending.is_alive()
    assert not driver.messages()


def test_a_graph_that_stays_is_an_error_and_no_hang(nccl, driver, monkeypatch):
    monkeypatch.setenv("DSSTNE_CUDAEMU_TIMEOUT", "0")
    first = nccl.ranks[0]
    executable = captured(nccl, driver, first, first.upload(np.ones(8)))
    assert nccl.code("ncclCommAbort", first.communicator) == 1
    assert "a communicator cannot end: 1 captured collectives refer to it" in driver.messages()
    with first:
        assert driver.code("cuStreamSynchronize", first.stream) == 702
    driver("cuGraphExecDestroy", executable)


def test_a_rank_that_never_comes_is_an_error_and_no_hang(nccl, driver, monkeypatch):
    monkeypatch.setenv("DSSTNE_CUDAEMU_TIMEOUT", "0")
    first = nccl.ranks[0]
    nccl.all_reduce(first, first.upload(np.ones(8)), 8)
    with first:
        assert driver.code("cuStreamSynchronize", first.stream) == 702
    assert "a collective waits in vain: 1 of 3 have come" in driver.messages()


def test_abort_lets_go_who_waits(nccl, driver):
    first = nccl.ranks[0]
    nccl.all_reduce(first, first.upload(np.ones(8)), 8)
    nccl("ncclCommAbort", first.communicator)
    with first:
        driver("cuStreamSynchronize", first.stream)


def test_misuse_and_injected_faults_are_answered(nccl, driver):
    r = nccl.ranks[0]
    x = r.upload(np.ones(8))
    with r:
        args = (FLOAT32, SUM, r.communicator, r.stream)
        assert nccl.code("ncclAllReduce", x, x, 9, *args) == 4, "beyond the allocation"
        assert nccl.code("ncclAllReduce", nccl.ranks[1].upload(np.ones(8)), x, 8, *args) == 4, "another device's memory"
        driver.fail("ncclAllReduce", 1, 2)
        assert nccl.code("ncclAllReduce", x, x, 8, *args) == 2


IN_PROGRESS, INVALID_USAGE = 7, 5


class Id(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_char * 128),)


def test_calls_of_a_communicator_that_does_not_block_are_in_progress_for_a_while(nccl):
    library, r = nccl.library, nccl.ranks[0]
    unique, made, state = Id(), ctypes.c_uint64(), ctypes.c_int(-1)
    assert library.ncclGetUniqueId(ctypes.byref(unique)) == 0

    def ended():
        assert library.ncclCommGetAsyncError(made, ctypes.byref(state)) == 0
        return state.value != IN_PROGRESS

    with r:
        x = r.driver.upload(np.ones(8, np.float32).tobytes())
        config = pack("QIIi", 24, 0xCAFEBEEF, 21400, 0)
        answer = library.ncclCommInitRankConfig(ctypes.byref(made), 1, unique, 0, config)
        assert answer == IN_PROGRESS
        arguments = ("ncclAllReduce", x, x, 8, FLOAT32, SUM, made.value, r.stream)
        assert nccl.code(*arguments) == INVALID_USAGE
        assert not ended()
        while not ended():
            pass
        assert nccl.code(*arguments) == IN_PROGRESS
        while not ended():
            pass
        assert state.value == 0
    assert np.array_equal(r.read(x, 8), np.ones(8))
    assert library.ncclCommAbort(made) == IN_PROGRESS
    assert library.ncclCommGetAsyncError(made, ctypes.byref(state)) == 4, "it is gone"
