"""Compares, and shows what a comparison has found: the command `bench/compare/run`."""
import argparse
import copy
import datetime
import json
import os
import pathlib
import platform
import sys
import tempfile

import shown
import subject
from clients import Failed
from figures import Progress

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
FULL = {"rounds": 100, "skills": (10_000, 10), "components": (100, 1)}
QUICK = {"rounds": 3, "skills": (1_000, 10), "components": (10, 1)}


class Place:
    """The programs, and the folders that they read."""

    def __init__(self, folder, programs, cache, counts):
        self.counts = counts
        self.use(programs, cache)
        folder = pathlib.Path(folder)
        self.many_skills, self.skills = (
            subject.skills(folder / str(count), count) for count in counts["skills"])
        component = REPOSITORY / "guest-tools/dist/read_file_in_skill.wasm"
        self.many_tools, self.one_tool = (
            subject.tools(folder / ("tools-%d" % count), component, count)
            for count in counts["components"])

    def use(self, programs, cache):
        self.skillhost, self.compare = (
            str(program(programs, name)) for name in ("skillhost", "skillhost-compare"))
        self.cache = str(cache)
        self.environment = dict(os.environ, SKILLHOST_CACHE=self.cache)

    def of_another_build(self, programs, cache):
        """The same folders, and other programs."""
        other = copy.copy(self)
        other.use(programs, cache)
        return other

    def own(self, name):
        return str(HERE / name)

    def driver(self, skills, tools=None):
        """The command of the twin that is skillhost."""
        tools = tools and (str(tools[0]), tools[1])
        place = {"skills": str(skills), "cache": self.cache, "tools": tools}
        return [self.compare, json.dumps(place)]


def program(folder, name):
    found = folder / name
    if not os.access(found, os.X_OK):
        raise Failed("`%s` is not there: build it with `cargo build --release`" % found)
    return found


def measure(asked):
    # The SDK is needed for this alone.
    import builds
    import importlib.metadata
    import in_process
    import over_mcp
    import processes
    import scale
    counts = QUICK if asked.quick else FULL
    rounds = max(counts["rounds"], builds.FEWEST if asked.against else 0)
    progress = Progress(sys.stderr)
    rows = []
    with tempfile.TemporaryDirectory(prefix="skillhost-compare-") as folder:
        progress.say("skills and components are written")
        place = Place(folder, asked.programs.resolve(), made(asked.cache), counts)
        if asked.against:
            # What one build keeps, the other might take for its own.
            other = place.of_another_build(programs_of(asked.against), made(asked.cache / "other"))
            rows += builds.measure(place, other, rounds, progress.say, asked.limit)
        else:
            for part in (in_process, over_mcp, scale, processes):
                rows += part.measure(place, rounds, progress.say)
    progress.say("")
    return {
        "made": datetime.date.today().isoformat(),
        "quick": asked.quick,
        "builds": asked.against is not None,
        "rounds": rounds,
        "machine": "%s, %d processors" % (processor(), os.cpu_count()),
        "python": platform.python_version(),
        "mcp": importlib.metadata.version("mcp"),
        "rows": rows,
    }


def made(cache):
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    return cache.resolve()


def programs_of(checkout):
    """Where a checkout has what it was built into; or the folder, if they lie there."""
    built = checkout / "target/release"
    return (built if built.is_dir() else checkout).resolve()


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def arguments():
    parser = argparse.ArgumentParser(
        prog="bench/compare/run",
        description="Compares skillhost with reads that have no sandbox, in one run; or two "
                    "builds of it with each other.")
    parser.add_argument("--against", type=pathlib.Path, metavar="CHECKOUT",
                        help="compares with the build of another checkout, made by `cargo build "
                             "--release` there, or with the programs in a folder")
    parser.add_argument("--limit", type=float, default=1.05, metavar="RATIO",
                        help="with --against: most that a call in process may take, and an idle "
                             "server hold, as a multiple of the other build's (default: %(default)s)")
    parser.add_argument("--quick", action="store_true",
                        help="a short run, with fewer rounds, skills and components")
    parser.add_argument("--output", choices=shown.FORMS, default="table",
                        help="what is printed (default: %(default)s)")
    parser.add_argument("--to", type=pathlib.Path, metavar="STEM",
                        help="writes STEM.json and STEM.svg (default: target/compare/comparison, "
                             "target/compare/builds with --against, and nothing with --from)")
    parser.add_argument("--from", type=pathlib.Path, metavar="FILE", dest="earlier",
                        help="measures nothing: shows what an earlier run has written")
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE",
                        help="puts the table into a page of Markdown, in the place of the last one")
    parser.add_argument("--check", action="store_true",
                        help="ends with exit code 1 where a target is not met")
    parser.add_argument("--programs", type=pathlib.Path, default=REPOSITORY / "target/release",
                        help="where skillhost and skillhost-compare are (default: target/release)")
    parser.add_argument("--cache", type=pathlib.Path, default=REPOSITORY / "target/compare/cache",
                        help="where compiled components are kept (default: target/compare/cache)")
    return parser.parse_args()


def write(stem, comparison):
    stem.parent.mkdir(parents=True, exist_ok=True)
    for form in ("json", "svg"):
        file = stem.with_name("%s.%s" % (stem.name, form))
        file.write_text(shown.FORMS[form](comparison), encoding="utf-8")


def main():
    asked = arguments()
    try:
        if asked.earlier:
            comparison = json.loads(asked.earlier.read_text(encoding="utf-8"))
        else:
            comparison = measure(asked)
            name = "builds" if asked.against else "comparison"
            asked.to = asked.to or REPOSITORY / "target/compare" / name
        if asked.to:
            write(asked.to, comparison)
        if asked.page:
            page = shown.paged(asked.page.read_text(encoding="utf-8"), comparison)
            asked.page.write_text(page, encoding="utf-8")
        print(shown.FORMS[asked.output](comparison), end="")
    except (Failed, OSError, ValueError) as error:
        print("error: %s" % error, file=sys.stderr)
        sys.exit(2)
    if asked.check and any(row["met"] is False for row in comparison["rows"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
