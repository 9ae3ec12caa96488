"""Missing waits between pieces of work are found, whatever order the emulator does them in; and no others reported."""

import numpy as np
import pytest
from test_driver import NON_BLOCKING, add_one, end_capture, floats, pinned
from test_nccl import FLOAT32, SUM, Nccl

from emulator import LAUNCH_FAILED, Driver

ORDER = 8
BYTES = 256  # 64 numbers, which add_one adds 1 to


@pytest.fixture(autouse=True, params=[0, 1], ids=["at once", "lazy"])
def looking(driver, request):
    driver.set("checks", ORDER | 3)
    driver.set("lazy", request.param)


@pytest.fixture
def streams(driver):
    return driver.out("cuStreamCreate", NON_BLOCKING), driver.out("cuStreamCreate", NON_BLOCKING)


@pytest.fixture
def x(driver):
    return driver.upload(bytes(BYTES))


def wait_for(driver: Driver, waits: int, other: int) -> None:
    event = driver.out("cuEventCreate", 2)
    driver("cuEventRecord", event, other)
    driver("cuStreamWaitEvent", waits, event, 0)


def found(driver: Driver, *words: str) -> None:
    """The context has failed, and the message has these words."""
    assert driver.code("cuCtxSynchronize") == LAUNCH_FAILED
    said = driver.messages()
    for word in words:
        assert word in said
    driver("cuDevicePrimaryCtxReset_v2", 0)


def nothing_found(driver: Driver) -> None:
    driver.synchronize()
    assert driver.messages() == ""


def copy(driver: Driver, to: int, of: int, stream: int) -> None:
    driver("cuMemcpyDtoDAsync_v2", to, of, BYTES, stream)


def fill(driver: Driver, to: int, stream: int) -> None:
    driver("cuMemsetD32Async", to, 7, BYTES // 4, stream)


# ---- two streams ----


def test_a_kernel_that_does_not_wait_for_another_streams_kernel(driver, streams, x):
    for stream in streams:
        add_one(driver, x, 64, stream)
    found(
        driver,
        "kernel example_multiply_add, block (0, 0, 0), thread (0, 0, 0): reads 4 bytes at 0x",
        "which example_multiply_add in stream ",
        " writes, and nothing makes example_multiply_add in stream ",
        "0 bytes into allocation ",
    )


def test_a_kernel_that_waits_for_an_event(driver, streams, x):
    add_one(driver, x, 64, streams[0])
    wait_for(driver, streams[1], streams[0])
    add_one(driver, x, 64, streams[1])
    nothing_found(driver)
    assert np.all(floats(driver, x, 64) == 2)


def test_an_event_that_is_recorded_too_early_is_not_enough(driver, streams, x):
    event = driver.out("cuEventCreate", 2)
    driver("cuEventRecord", event, streams[0])
    add_one(driver, x, 64, streams[0])
    driver("cuStreamWaitEvent", streams[1], event, 0)
    add_one(driver, x, 64, streams[1])
    found(driver, "reads 4 bytes")


def test_waits_lead_through_other_streams(driver, streams, x):
    third = driver.out("cuStreamCreate", NON_BLOCKING)
    add_one(driver, x, 64, streams[0])
    wait_for(driver, third, streams[0])
    wait_for(driver, streams[1], third)
    add_one(driver, x, 64, streams[1])
    nothing_found(driver)


@pytest.mark.parametrize("wait", ["cuStreamSynchronize", "cuEventSynchronize", "cuEventQuery", "cuCtxSynchronize"])
def test_the_host_may_wait_between_two_launches(driver, streams, x, wait):
    add_one(driver, x, 64, streams[0])
    event = driver.out("cuEventCreate", 2)
    driver("cuEventRecord", event, streams[0])
    if wait == "cuEventQuery":
        while driver.code(wait, event):
            pass
    else:
        driver(wait, *{"cuStreamSynchronize": [streams[0]], "cuEventSynchronize": [event]}.get(wait, []))
    add_one(driver, x, 64, streams[1])
    nothing_found(driver)


def test_waiting_for_another_stream_is_not_enough(driver, streams, x):
    add_one(driver, x, 64, streams[0])
    driver("cuStreamSynchronize", streams[1])
    add_one(driver, x, 64, streams[1])
    found(driver, "reads 4 bytes")


def test_the_null_stream_and_streams_that_block_it_wait_for_each_other(driver, x):
    blocking = driver.out("cuStreamCreate", 0)
    for stream in (blocking, 0, blocking):
        add_one(driver, x, 64, stream)
    nothing_found(driver)


def test_readers_do_not_wait_for_each_other_and_a_writer_waits_for_all(driver, streams, x):
    third = driver.out("cuStreamCreate", NON_BLOCKING)
    for stream in streams:
        copy(driver, driver.alloc(BYTES), x, stream)
    for stream in streams:
        wait_for(driver, third, stream)
    fill(driver, x, third)
    nothing_found(driver)


@pytest.mark.parametrize("waits_for", [0, 1])
def test_a_writer_that_waits_for_one_of_two_readers(driver, streams, x, waits_for):
    third = driver.out("cuStreamCreate", NON_BLOCKING)
    for stream in streams:
        copy(driver, driver.alloc(BYTES), x, stream)
    wait_for(driver, third, streams[waits_for])
    fill(driver, x, third)
    found(driver, "a fill: writes 4 bytes at 0x", "which a copy in stream ", " reads, and nothing makes a fill")


def test_neighbours_in_an_allocation_are_no_conflict(driver, streams):
    x = driver.upload(bytes(2 * BYTES))
    add_one(driver, x, 64, streams[0])
    add_one(driver, x + BYTES, 64, streams[1])
    nothing_found(driver)


@pytest.mark.parametrize("second", [copy, fill], ids=["copy", "fill"])
def test_copies_and_fills_that_do_not_wait(driver, streams, x, second):
    y = driver.upload(bytes(BYTES))
    add_one(driver, x, 64, streams[0])
    second(driver, *([y, x] if second is copy else [x]), streams[1])
    found(driver, f"a {second.__name__}: {'reads' if second is copy else 'writes'} 4 bytes at 0x")


def test_memory_that_was_freed_and_taken_again_has_no_history(driver, streams, x):
    add_one(driver, x, 64, streams[0])
    driver("cuMemFree_v2", x)  # waits
    for _ in range(300):
        x = driver.alloc(1 << 20)
        fill(driver, x, streams[1])
        driver("cuMemFree_v2", x)
    nothing_found(driver)


def test_streams_that_come_and_go_are_told_apart(driver, x):
    for _ in range(3):
        stream = driver.out("cuStreamCreate", NON_BLOCKING)
        add_one(driver, x, 64, stream)
        driver("cuStreamSynchronize", stream)
        driver("cuStreamDestroy_v2", stream)
    nothing_found(driver)
    first, second = (driver.out("cuStreamCreate", NON_BLOCKING) for _ in range(2))
    add_one(driver, x, 64, first)
    driver("cuStreamDestroy_v2", first)  # does not wait
    add_one(driver, x, 64, second)
    found(driver, "reads 4 bytes")


# ---- graphs ----


def forked(driver: Driver, streams: tuple[int, int], x: int, joins: bool) -> int:
    """A graph of two branches that add to x, the second after the first if it joins them."""
    driver("cuStreamBeginCapture_v2", streams[0], 1)
    wait_for(driver, streams[1], streams[0])
    add_one(driver, x, 64, streams[0])
    if joins:
        wait_for(driver, streams[1], streams[0])
    add_one(driver, x, 64, streams[1])
    wait_for(driver, streams[0], streams[1])
    return driver.out("cuGraphInstantiateWithFlags", end_capture(driver, streams[0]), 0)


def test_a_graph_whose_branches_do_not_wait_for_each_other(driver, streams, x):
    driver("cuGraphLaunch", forked(driver, streams, x, joins=False), streams[0])
    found(driver, "reads 4 bytes", "a branch of a graph of device 0")


def test_a_graph_whose_branches_wait_runs_again_and_again(driver, streams, x):
    graph = forked(driver, streams, x, joins=True)
    for _ in range(3):
        driver("cuGraphLaunch", graph, streams[0])
    add_one(driver, x, 64, streams[0])
    nothing_found(driver)
    assert np.all(floats(driver, x, 64) == 7)


def test_a_graph_that_does_not_wait_for_another_streams_copy(driver, streams, x):
    y = driver.upload(bytes(BYTES))
    graph = forked(driver, streams, x, joins=True)
    copy(driver, x, y, streams[1])
    driver("cuGraphLaunch", graph, streams[0])
    found(driver, "a copy", "and nothing makes ")


# ---- the host ----


def test_pinned_memory_that_is_filled_again_before_a_copy_has_read_it(driver, streams):
    numbers, address = pinned(driver, 64)
    numbers[:] = 1
    driver("cuMemcpyHtoDAsync_v2", driver.alloc(BYTES), address, BYTES, streams[0])
    numbers[:] = 2
    found(driver, "the host changes pinned memory, 256 bytes at 0x", "that a copy in stream ", " reads, and")


def test_pinned_memory_that_is_filled_again_after_waiting(driver, streams):
    numbers, address = pinned(driver, 64)
    x, event = driver.alloc(BYTES), driver.out("cuEventCreate", 2)
    for turn in range(3):
        numbers[:] = turn
        driver("cuMemcpyHtoDAsync_v2", x, address, BYTES, streams[0])
        driver("cuEventRecord", event, streams[0])
        add_one(driver, x, 64, streams[0])
        driver("cuEventSynchronize", event)
    nothing_found(driver)
    assert np.all(floats(driver, x, 64) == 3)


def test_pinned_memory_that_is_changed_before_a_copy_has_written_it(driver, streams, x):
    numbers, address = pinned(driver, 64)
    driver("cuMemcpyDtoHAsync_v2", address, x, BYTES, streams[0])
    if driver.set("lazy", 0):  # when somebody waits for another event, the copy is done
        event = driver.out("cuEventCreate", 2)
        driver("cuEventRecord", event, streams[0])
        wait_for(driver, streams[1], streams[0])
        driver("cuMemcpyDtoDAsync_v2", driver.alloc(BYTES), x, BYTES, streams[1])
    numbers[:] = 2
    found(driver, "the host changes pinned memory, 256 bytes at 0x", "that a copy in stream ", " writes, and")


def test_two_copies_to_pinned_memory_that_do_not_wait(driver, streams, x):
    _, address = pinned(driver, 64)
    for stream in streams:
        driver("cuMemcpyDtoHAsync_v2", address, x, BYTES, stream)
    found(driver, "a copy: writes 4 bytes at 0x", "in pinned memory of the host")


# ---- libraries ----


@pytest.fixture
def nccl(driver):
    nccl = Nccl(driver)
    yield nccl
    nccl.close()


def test_a_collective_waits_for_the_work_before_it_on_all_ranks(nccl, driver):
    x = {r: r.upload(np.zeros(64)) for r in nccl.ranks}
    for r in nccl.ranks:
        with r:
            r.driver("cuMemsetD32Async", x[r], 0, 64, r.stream)
    nccl.grouped(lambda r: nccl.all_reduce(r, x[r], 64))
    for r in nccl.ranks:
        with r:
            r.driver("cuMemsetD32Async", x[r], 0, 64, r.stream)
    assert all(np.all(r.read(x[r], 64) == 0) for r in nccl.ranks)
    assert driver.messages() == ""


def test_a_collective_that_does_not_wait_for_a_copy_of_another_stream(nccl, driver):
    x = {r: r.upload(np.zeros(64)) for r in nccl.ranks}
    with nccl.ranks[1] as r:
        other = driver.out("cuStreamCreate", NON_BLOCKING)
        driver("cuMemsetD32Async", x[r], 0, 64, other)
    for r in nccl.ranks:
        with r:
            nccl("ncclAllReduce", x[r], x[r], 64, FLOAT32, SUM, r.communicator, r.stream)
    with nccl.ranks[1] as r:
        assert driver.code("cuCtxSynchronize") == LAUNCH_FAILED
    said = driver.messages()
    assert "a collective" in said
    assert "a fill in stream " in said or "a fill: writes" in said


def test_the_order_of_two_ranks_work_is_that_of_their_collectives(nccl, driver):
    first, second = nccl.ranks[:2]
    x = {r: r.upload(np.zeros(64)) for r in nccl.ranks}
    y = second.upload(np.zeros(64))
    with second:
        driver("cuMemsetD32Async", y, 1, 64, second.stream)
    nccl.grouped(lambda r: nccl.all_reduce(r, x[r], 64))
    with first:  # after the collective, so after the fill
        driver("cuMemcpyPeerAsync", x[first], first.context, y, second.context, BYTES, first.stream)
        driver("cuStreamSynchronize", first.stream)
    assert driver.messages() == ""
