"""Checks many addresses at the same time, a few at once."""
import asyncio
import sys

import httpx

PATHS = ["/page", "/items?page=1", "/status/404", "/status/500", "/redirect", "/file", "/xml", "/none"]


async def check(client, limit, path):
    async with limit:
        try:
            response = await client.head(path)
            if response.status_code == 405:
                response = await client.get(path)
            return path, response.status_code, len(response.history)
        except httpx.HTTPError as error:
            return path, type(error).__name__, 0


async def main():
    limit = asyncio.Semaphore(3)
    async with httpx.AsyncClient(base_url=sys.argv[1], follow_redirects=True) as client:
        tasks = [asyncio.create_task(check(client, limit, path)) for path in PATHS]
        for task in asyncio.as_completed(tasks):
            await task
        results = [task.result() for task in tasks]
    for result in results:
        print(*result)
    return sum(1 for _, status, _ in results if status != 200)


sys.exit(asyncio.run(main()))
