import asyncio, sys, httpx


async def main():
    async with httpx.AsyncClient(base_url=sys.argv[1]) as client:
        pages = await asyncio.gather(*(client.get("/items", params={"page": page}) for page in (1, 2, 3)))
        print([page.json()[0]["id"] for page in pages])
        async with client.stream("GET", "/file") as response:
            print(sum([len(chunk) async for chunk in response.aiter_bytes()]))


asyncio.run(main())
