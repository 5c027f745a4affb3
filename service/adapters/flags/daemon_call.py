"""A call on a thread of its own that nobody has to wait for, not even the process's exit."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def call_on_daemon(call: Callable[[], T]) -> asyncio.Future[T]:
    """The call's result or exception, for the running loop. A pool's thread would hold up the exit."""
    answer: Future[T] = Future()

    def run() -> None:
        if not answer.set_running_or_notify_cancel():
            return
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is awaited
            answer.set_exception(error)
        else:
            answer.set_result(result)

    threading.Thread(target=run, name="flag-holder", daemon=True).start()
    return asyncio.wrap_future(answer)
