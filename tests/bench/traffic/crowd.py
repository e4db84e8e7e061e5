"""Parts of one work in processes of their own, none of which outlives it."""

import asyncio
import concurrent.futures
import multiprocessing

from sdxl import processes


async def in_processes(work, shares):
    """What `work(*share)` gives for each share, each in a process. Who is cancelled, or fails, does not wait for those that still run.
    BrokenExecutor: one of them has died."""
    loop = asyncio.get_running_loop()
    with concurrent.futures.ProcessPoolExecutor(len(shares), multiprocessing.get_context("spawn"), processes.end_with_parent) as pool:
        try:
            return await asyncio.gather(*(loop.run_in_executor(pool, work, *share) for share in shares))
        except BaseException:
            for process in multiprocessing.active_children():
                process.kill()
            raise
