"""Which jobs a search does: the rule of successive halving, whoever does the jobs and however long they take."""

import heapq
import math
import random

import pytest

from dsstne._halving import Halving


def value(candidate, rung):
    """A metric that rises with the rung, and whose order differs a little between rungs."""
    return (math.sin(12.9898 * candidate) * 43758.5453) % 1 + 0.1 * math.sin(candidate * (rung + 1)) + rung


def played(halving, workers=1, seed=0, value=value):
    """Plays a search in which random jobs end first; returns the jobs in the order in which they were given out."""
    draw, running, jobs = random.Random(seed), [], []
    while True:
        while len(running) < workers and (job := halving.next()) is not None:
            running.append(job)
            jobs.append((job.candidate, job.rung))
        if not running:
            return jobs
        job = running.pop(draw.randrange(len(running)))
        halving.tell(job, value(job.candidate, job.rung))


def test_about_a_third_goes_on_from_each_rung():
    jobs = played(Halving(3, 81))
    counts = [sum(rung == at for _, rung in jobs) for at in range(3)]
    assert counts[0] == 81
    assert 27 <= counts[1] <= 33
    assert 9 <= counts[2] <= 12


def test_the_best_of_a_rung_goes_on():
    jobs = played(Halving(2, 30))
    promoted = {candidate for candidate, rung in jobs if rung == 1}
    ranked = sorted(range(30), key=lambda candidate: -value(candidate, 0))
    assert set(ranked[:10]) <= promoted


@pytest.mark.parametrize("jobs", [1, 2, 5])
@pytest.mark.parametrize("brackets", [1, 3])
def test_jobs_do_not_depend_on_how_long_they_take(jobs, brackets):
    wanted = played(Halving(3, 40, brackets=brackets, jobs=jobs))
    for workers in range(1, jobs + 1):
        for seed in range(20):
            assert played(Halving(3, 40, brackets=brackets, jobs=jobs), workers, seed) == wanted


def test_with_any_number_of_jobs_nobody_waits_for_a_slow_job():
    halving = Halving(3, None, jobs=None)
    slow = halving.next()
    for _ in range(50):
        job = halving.next()
        halving.tell(job, value(job.candidate, job.rung))
    assert halving.running == 1
    halving.tell(slow, 0.0)


@pytest.mark.parametrize(("jobs", "least"), [(2, 0.95), (4, 0.9), (8, 0.8)])
def test_workers_hardly_wait_although_candidates_differ_in_speed(jobs, least):
    halving, draw, running = Halving(4, 300, jobs=jobs), random.Random(1), []
    speeds = [draw.choice([0.5, 1, 2]) for _ in range(300)]
    now = busy = 0.0
    while True:
        while len(running) < jobs and (job := halving.next()) is not None:
            seconds = speeds[job.candidate] * (3**job.rung - (0 if job.before is None else 0.8 * 3**job.before)) + 0.3
            busy += seconds
            heapq.heappush(running, (now + seconds, job.number, job))
        if not running:
            break
        now, _, job = heapq.heappop(running)
        halving.tell(job, value(job.candidate, job.rung))
    assert busy > least * jobs * now


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8])
def test_the_best_of_few_candidates_is_trained_to_the_end(count):
    jobs = played(Halving(4, count))
    assert max(rung for _, rung in jobs) == 3
    assert {candidate for candidate, _ in jobs} == set(range(count))


def test_a_candidate_that_fails_is_never_promoted():
    jobs = played(Halving(3, 30), value=lambda candidate, rung: -math.inf if candidate % 2 else value(candidate, rung))
    assert {candidate % 2 for candidate, rung in jobs if rung} == {0}


def test_nothing_is_promoted_if_all_fail():
    jobs = played(Halving(3, 30), value=lambda *_: -math.inf)
    assert {rung for _, rung in jobs} == {0}


def test_each_bracket_begins_at_its_rung_and_has_about_the_same_work():
    jobs = played(Halving(4, 118, brackets=4))
    work = [0.0] * 4
    first = {}
    for candidate, rung in jobs:
        bracket = first.setdefault(candidate, rung)
        work[bracket] += 3.0**rung - (3.0 ** (rung - 1) if rung > bracket else 0)
    counts = [sum(bracket == at for bracket in first.values()) for at in range(4)]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] >= 3
    assert max(work) < 2 * min(work)


def test_who_is_out_is_not_promoted_later():
    halving, out, draw = Halving(3, 40, jobs=None), set(), random.Random(1)
    running = []
    while True:
        while len(running) < 4 and (job := halving.next()) is not None:
            assert job.candidate not in out
            running.append(job)
        if not running:
            break
        job = running.pop(draw.randrange(len(running)))
        halving.tell(job, value(job.candidate, job.rung))
        out |= halving.out()
    assert len(out) == 40


def test_it_learns_the_first_result_of_each_candidate():
    learned = []
    jobs = played(Halving(3, 20, jobs=3, learn=lambda *pair: learned.append(pair)), workers=3)
    assert sorted(learned) == [(candidate, value(candidate, 0)) for candidate in range(20)]
    assert len(jobs) > 20
