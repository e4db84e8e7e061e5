"""Parts of one work in processes of their own, none of which outlives it."""

import asyncio
import concurrent.futures
import contextlib
import multiprocessing

from full_size import processes


async def in_processes(work, shares):
    """Results of `work(*share)` for each share, each in a process. A share that is cancelled, or fails, does not wait for those that run.
    BrokenExecutor: one of them has died."""
    loop = asyncio.get_running_loop()
    context = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as stack:
        # One each: an executor does not notice that a process has died that it started after its first one, until another one
        # comes to an end (Python 3.11).
        executors = [stack.enter_context(concurrent.futures.ProcessPoolExecutor(1, context, processes.end_with_parent))
                     for _ in shares]
        try:
            return await asyncio.gather(*(loop.run_in_executor(executor, work, *share)
                                          for executor, share in zip(executors, shares, strict=True)))
        except BaseException:
            for process in multiprocessing.active_children():
                process.kill()
            raise
