"""Starts a job, and waits until it is done."""
import sys
import time

import httpx


def wait_for(client, job, timeout=20.0, interval=0.02):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        state = client.get(f"/jobs/{job}").raise_for_status().json()
        print(state["state"], state["progress"])
        if state["state"] in ("done", "failed"):
            return state
        time.sleep(interval)
    raise TimeoutError(f"job {job} is not done after {timeout} seconds")


with httpx.Client(base_url=sys.argv[1], timeout=httpx.Timeout(10.0, connect=5.0)) as client:
    created = client.post("/jobs", json={"kind": "export"})
    print(created.status_code, created.headers["Location"])
    result = wait_for(client, created.json()["id"])
    print(result["result"])
    client.delete(created.headers["Location"])
    print(client.get(created.headers["Location"]).status_code)
