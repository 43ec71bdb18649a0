"""One bounded executor: work flows per question, and at most ``num_threads`` model calls are in flight.

Each task runs in the caller's DSPy context. Nested maps (the criteria of one rubric) get threads of their own; the
bound on calls is a semaphore that is held only while a call is on its way.
"""

import contextvars
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

from decoevo_dspy.errors import ConfigurationError

T = TypeVar("T")
R = TypeVar("R")


def checked_threads(value: Any) -> int:
    """``value`` as a thread count.

    Raises:
        ConfigurationError: unless it is a whole number from 1 to 256.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 256:
        raise ConfigurationError(f"num_threads = {value!r}: give a whole number from 1 to 256")
    return value


class Executor:
    """Order-preserving parallel map with ``num_threads`` (1…256) concurrent calls; 1 runs everything in line."""

    def __init__(self, num_threads: int) -> None:
        self.num_threads = checked_threads(num_threads)
        self._slots = threading.Semaphore(num_threads)

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Hold one of the ``num_threads`` places for a model call."""
        with self._slots:
            yield

    def map(self, fn: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """``[fn(item) for item in items]`` in parallel; the first exception cancels what has not begun."""
        if self.num_threads == 1 or len(items) <= 1:
            return [fn(item) for item in items]
        with ThreadPoolExecutor(max_workers=min(self.num_threads, len(items))) as pool:
            futures = [pool.submit(contextvars.copy_context().run, fn, item) for item in items]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                failed = next((f for f in futures if f in done and f.exception() is not None), None)
                if failed is not None:
                    failed.result()
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
