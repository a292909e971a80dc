"""Tasks that wait for one another."""
import asyncio


async def work(name, delay, queue):
    await asyncio.sleep(delay)
    await queue.put(name)
    return delay


async def main():
    queue = asyncio.Queue()
    async with asyncio.Semaphore(2):
        done = await asyncio.gather(*(work(n, d, queue) for n, d in [("slow", 0.03), ("fast", 0.001), ("mid", 0.015)]))
    print(done, [await queue.get() for _ in range(3)])
    try:
        await asyncio.wait_for(asyncio.sleep(5), 0.01)
    except asyncio.TimeoutError:
        print("timeout")
    try:
        await asyncio.gather(asyncio.sleep(0), work("x", "no number", queue))
    except TypeError:
        print("TypeError")


asyncio.run(main())
