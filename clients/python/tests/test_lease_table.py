from millrace.lease_table import LeaseTable


def held(rows):
    return [job for _, job in rows]


def test_a_lease_is_due_at_a_third():
    table = LeaseTable(30.0)
    table.add("a", "A", now=100.0, time_left=30.0)
    assert table.next_event() == 110.0
    assert held(table.due(109.9)) == []
    assert held(table.due(110.0)) == ["A"]


def test_a_short_rest_of_a_lease_is_due_at_a_third_of_the_rest():
    table = LeaseTable(30.0)
    table.add("a", "A", now=0.0, time_left=6.0)
    assert table.next_event() == 2.0


def test_an_extension_counts_from_when_it_was_asked_for():
    table = LeaseTable(30.0)
    table.add("a", "A", now=0.0, time_left=30.0)
    table.extended(["a"], asked_at=10.0)
    assert table.due(19.9) == []
    assert held(table.due(20.0)) == ["A"]
    assert table.newly_expired(39.9) == []
    assert table.newly_expired(40.0) == ["A"]


def test_expiry_is_reported_once_and_the_lease_is_still_tried():
    table = LeaseTable(9.0)
    table.add("a", "A", now=0.0, time_left=9.0)
    table.after_failure(["a"], retry_at=20.0)
    assert table.next_event() == 9.0
    assert table.newly_expired(9.0) == ["A"]
    assert table.newly_expired(10.0) == []
    assert table.next_event() == 20.0
    assert held(table.due(20.0)) == ["A"]
    # A server that comes back with the lease still good renews it.
    table.extended(["a"], asked_at=20.0)
    assert table.newly_expired(28.9) == []
    assert table.newly_expired(29.0) == ["A"]


def test_a_settled_lease_is_forgotten_whatever_comes_late():
    table = LeaseTable(9.0)
    table.add("a", "A", now=0.0, time_left=9.0)
    table.remove("a")
    table.remove("a")
    table.extended(["a"], asked_at=1.0)
    table.after_failure(["a"], retry_at=1.0)
    assert len(table) == 0
    assert table.next_event() is None


def test_two_tries_fit_in_before_the_lease_ends():
    # Every lease length, the server answering no call: the tries after the first, spaced like the first, are in time.
    for duration in (1.0, 3.0, 30.0, 43200.0):
        table = LeaseTable(duration)
        table.add("a", "A", now=0.0, time_left=duration)
        tries = 0
        while (now := table.next_event()) < duration * 0.999:
            assert held(table.due(now)) == ["A"]
            tries += 1
            table.after_failure(["a"], retry_at=now + duration / 3)
        assert tries >= 2
