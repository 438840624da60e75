import random

import pytest

from millrace.backoff import Backoff


@pytest.mark.parametrize("seed", range(20))
def test_waits_grow_to_the_longest_and_stay_within_half_of_the_step(seed):
    backoff = Backoff(0.1, 1.0, random.Random(seed))
    for step in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0):
        assert step / 2 <= backoff.next_wait() <= step


def test_reset_starts_again():
    backoff = Backoff(0.1, 1.0, random.Random(1))
    for _ in range(5):
        backoff.next_wait()
    backoff.reset()
    assert backoff.next_wait() <= 0.1


def test_what_the_server_asks_for_is_kept_within_a_bound():
    backoff = Backoff(0.1, 1.0, random.Random(1))
    assert backoff.next_wait(0.7) >= 0.7
    assert backoff.next_wait(3600) <= 4.0 * 1.2


def test_workers_do_not_return_in_step():
    waits = {round(Backoff(0.1, 1.0, random.Random(seed)).next_wait(), 6) for seed in range(50)}
    assert len(waits) > 40
