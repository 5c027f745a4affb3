"""What waits for the encoder, and in which order it is taken."""

import pytest

from embeddings.encoder_settings import ServiceLimits
from embeddings.errors import EncoderClosed, Overloaded
from embeddings.work_queue import PassageJob, QueryJob, WorkQueue

LIMITS = ServiceLimits(query_batch=4, waiting_queries=6, waiting_passages=10)


def queue_of(*texts: str) -> WorkQueue:
    """A queue with these queries."""
    queue = WorkQueue(LIMITS)
    for text in texts:
        queue.add_query(QueryJob(text))
    return queue


def taken(queue: WorkQueue) -> list[str]:
    """The texts of the next query batch."""
    work = queue.take()
    assert isinstance(work, list)
    return [job.text for job in work]


def test_what_waits_is_taken_together_in_order() -> None:
    """Queries that wait share a batch, oldest first, up to the batch size."""
    queue = queue_of("a", "b", "c", "d", "e")
    assert taken(queue) == ["a", "b", "c", "d"]
    assert taken(queue) == ["e"]
    assert queue.take() is None


def test_long_and_short_queries_do_not_share_a_batch() -> None:
    """A batch is padded to its longest text, so only like lengths are padded together; the oldest leads."""
    long = "word " * 300
    queue = queue_of("short", long, "another", long + "x")
    assert taken(queue) == ["short", "another"]
    assert taken(queue) == [long, long + "x"]


def test_queries_go_before_passages() -> None:
    """A query that comes after a passage job is taken before its next step."""
    queue = WorkQueue(LIMITS)
    job = PassageJob(("p",))
    queue.add_passages(job)
    assert queue.take() is job
    queue.add_query(QueryJob("q"))
    assert taken(queue) == ["q"]
    assert queue.take() is job
    queue.finish(job)
    queue.finish(job)
    assert queue.take() is None


def test_a_flood_of_queries_does_not_starve_passages() -> None:
    """After eight query batches in a row a passage job gets one step."""
    queue = WorkQueue(LIMITS)
    job = PassageJob(("p",))
    queue.add_passages(job)
    for _ in range(8):
        queue.add_query(QueryJob("q"))
        assert taken(queue) == ["q"]
    queue.add_query(QueryJob("q"))
    assert queue.take() is job
    assert taken(queue) == ["q"]


def test_the_bounds_refuse_and_cancelled_work_makes_room() -> None:
    """A full queue refuses; those whose caller gave up do not count."""
    queue = WorkQueue(LIMITS)
    jobs = [QueryJob(str(number)) for number in range(6)]
    for job in jobs:
        queue.add_query(job)
    with pytest.raises(Overloaded):
        queue.add_query(QueryJob("one more"))
    jobs[0].future.cancel()
    queue.add_query(QueryJob("one more"))
    assert queue.waiting_queries == 6
    assert taken(queue) == ["1", "2", "3", "4"]


def test_passages_are_bounded_and_one_large_job_still_fits_alone() -> None:
    """A job larger than the bound is accepted when nothing waits, and nothing beside it."""
    queue = WorkQueue(LIMITS)
    large = PassageJob(("p",) * 50)
    queue.add_passages(large)
    with pytest.raises(Overloaded):
        queue.add_passages(PassageJob(("p",)))
    large.future.cancel()
    queue.add_passages(PassageJob(("p",)))
    assert queue.waiting_passages == 1


def test_refusing_answers_everything_that_waits() -> None:
    """Closing leaves no caller without an answer, and cancelled ones alone."""
    queue = WorkQueue(LIMITS)
    query, gone, job = QueryJob("q"), QueryJob("gone"), PassageJob(("p",))
    queue.add_query(query)
    queue.add_query(gone)
    queue.add_passages(job)
    gone.future.cancel()
    queue.refuse_all(EncoderClosed("closed"))
    assert isinstance(query.future.exception(), EncoderClosed)
    assert isinstance(job.future.exception(), EncoderClosed)
    assert queue.take() is None
