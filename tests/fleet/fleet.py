"""Calls of both SDKs' clients through haproxy to three instances, while the instances are killed,
stopped, paused and restarted at random. No call gets a wrong answer, and no call is lost without an
error. Each answered call has exactly one audit record, and each failed call at most one."""
import collections
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import serving
from balancer import ask, free_port, until
from proxies import Haproxy

CALLS = int(os.environ.get("CALLS", 50_000))
SEED = int(os.environ.get("SEED", 46))
# The revisions that the clients of each language speak.
CLIENTS = [("python", "modern"), ("python", "legacy"),
           ("typescript", "modern"), ("typescript", "legacy")]
# The fraction of the calls that must be answered. Without it, a fleet that only fails would pass.
ANSWERED = 0.9
# The time in which all calls must have ended.
DEADLINE = 1800
CONFIGURATION = """
skills = ["fleet-skills"]
audit_file = "audit-%(number)d.jsonl"
[http]
token_file = "token"
trusted_proxies = ["127.0.0.1"]
"""


def content(number):
    """Returns the text of a file. The clients compute the same."""
    return "file %d of the fleet\n" % number * (number % 60 + 1)


class Instance:
    """One process of the program, which can be started again on the same port."""

    def __init__(self, where, number):
        self.where = where
        self.port = free_port()
        self.file = where.folder / ("instance-%d.toml" % number)
        self.file.write_text(CONFIGURATION % {"number": number})
        self.audit = where.folder / ("audit-%d.jsonl" % number)
        self.log = where.folder / ("instance-%d.log" % number)
        self.start()

    def start(self):
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [serving.SKILLHOST, "serve", "--http", "127.0.0.1:%d" % self.port,
                 "--config", self.file.name],
                cwd=self.where.folder, stdout=subprocess.DEVNULL, stderr=log)
        until("an instance is not ready: %s" % self.log.read_text()[-500:], self.is_ready)

    def is_ready(self):
        with contextlib.suppress(OSError):
            return ask(self.port, path="/readyz") == "200"

    def kill(self, wait):
        self.process.kill()
        self.process.wait()
        time.sleep(wait)
        self.start()

    def stop(self, wait):
        self.process.terminate()
        code = self.process.wait(serving.PATIENCE)
        if code != 0:
            raise RuntimeError("a stopped instance ended with exit code %d" % code)
        time.sleep(wait)
        self.start()

    def pause(self, wait):
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(wait)
        self.process.send_signal(signal.SIGCONT)

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


def client(language, era, where, url, first, count):
    """Starts a client, which makes `count` calls, and returns its process and the file that it
    writes."""
    file = where.folder / ("%s-%s.json" % (language, era))
    here = serving.REPOSITORY / "tests/fleet"
    command = ([sys.executable, here / "client.py"] if language == "python"
               else [serving.NODE, here / "client.mjs"])
    arguments = [url, serving.TOKEN, era, first, count, file]
    return subprocess.Popen([str(word) for word in command + arguments],
                            env=serving.environment()), file


def disturb(instances, clients):
    """Disturbs one instance at a time until all clients have ended. Returns the number of times."""
    chance = random.Random(SEED)
    end = time.monotonic() + DEADLINE
    done = collections.Counter()
    while any(process.poll() is None for process, _ in clients):
        if time.monotonic() > end:
            raise RuntimeError("calls have not ended after %d s" % DEADLINE)
        time.sleep(chance.uniform(0.2, 1.5))
        kind = chance.choice(["kill", "stop", "pause"])
        getattr(chance.choice(instances), kind)(chance.uniform(0, 2))
        done[kind] += 1
    return done


def problems(results, records):
    """Returns the problems of all calls and of their records."""
    wrong = []
    answered = [trace for result in results for trace in result["answered"]]
    failed = [trace for result in results for trace in result["failed"]]
    for result in results:
        wrong += ["answered wrongly: %s" % text for text in result["wrong"]]
        wrong += ["lost without an error: %s" % trace for trace in result["lost"]]
    if len(set(answered + failed)) != CALLS:
        wrong.append("%d of %d calls have ended" % (len(set(answered + failed)), CALLS))
    if len(answered) < ANSWERED * CALLS:
        wrong.append("only %d of %d calls were answered" % (len(answered), CALLS))
    times = collections.Counter(record["trace"] for record in records)
    wrong += ["answered, and in %d records: %s" % (times[trace], trace)
              for trace in answered if times[trace] != 1]
    wrong += ["failed, and in %d records: %s" % (times[trace], trace)
              for trace in failed if times[trace] > 1]
    unknown = set(times) - set(answered) - set(failed)
    wrong += ["a record of no call: %s" % trace for trace in unknown]
    return wrong


def calls_of(instance):
    """Returns the records of the calls in an instance's log, after `audit verify` has checked it."""
    subprocess.run([serving.SKILLHOST, "audit", "verify", str(instance.audit)], check=True,
                   stdout=subprocess.DEVNULL)
    lines = instance.audit.read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record.get("trace")]


def run():
    with serving.place() as where, contextlib.ExitStack() as stack:
        skill = where.folder / "fleet-skills/fleet"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text("---\nname: fleet\ndescription: Files to read.\n---\n")
        for number in range(500):
            (skill / ("file-%d.txt" % number)).write_text(content(number))
        instances = []
        for number in (1, 2, 3):
            instances.append(Instance(where, number))
            stack.callback(instances[-1].end)
        port = stack.enter_context(Haproxy(where).running([one.port for one in instances]))
        start = time.monotonic()
        each = CALLS // len(CLIENTS)
        clients = []
        for number, (language, era) in enumerate(CLIENTS):
            count = each if number else CALLS - each * (len(CLIENTS) - 1)
            url = "http://127.0.0.1:%d/mcp" % port
            clients.append(client(language, era, where, url, number * CALLS, count))
            stack.callback(clients[-1][0].kill)
        disturbed = disturb(instances, clients)
        took = time.monotonic() - start
        codes = [process.wait() for process, _ in clients]
        if any(codes):
            return ["clients ended with exit codes %s" % codes]
        for instance in instances:
            instance.stop(0)
        results = [json.loads(file.read_text()) for _, file in clients]
        records = [calls_of(instance) for instance in instances]
        wrong = problems(results, [record for log in records for record in log])
        errors = collections.Counter()
        for result in results:
            errors.update(result["errors"])
        print("seed %d, %.0f s: %d calls answered, %d failed; disturbed: %s" % (
            SEED, took, sum(len(result["answered"]) for result in results),
            sum(len(result["failed"]) for result in results),
            ", ".join("%s %d" % item for item in sorted(disturbed.items()))))
        print("records of each instance: %s" % [len(log) for log in records])
        for (language, era), result in zip(CLIENTS, results):
            print("%s, %s: %d answered, %d failed, %d connections failed" % (
                language, era, len(result["answered"]), len(result["failed"]),
                result["connections_failed"]))
        for text, times in errors.most_common(12):
            print("  %5d  %s" % (times, text))
        if not all(disturbed[kind] for kind in ("kill", "stop", "pause")) or not all(records):
            wrong.append("an instance had no calls, or a kind of disturbance did not happen")
        return wrong[:20]
