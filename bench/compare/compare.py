"""Runs a comparison, or shows the results of an earlier one: the command `bench/compare/run`."""
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


class Setup:
    """The measured programs, and the folders that they read."""

    def __init__(self, folder, programs, cache, counts):
        self.counts = counts
        self.use(programs, cache)
        folder = pathlib.Path(folder)
        self.many_skills, self.skills = (
            subject.write_skills(folder / str(count), count) for count in counts["skills"])
        component = REPOSITORY / "guest-tools/dist/read_file_in_skill.wasm"
        self.many_tools, self.one_tool = (
            subject.write_tools(folder / ("tools-%d" % count), component, count)
            for count in counts["components"])

    def use(self, programs, cache):
        self.skillhost, self.compare = (
            str(program(programs, name)) for name in ("skillhost", "skillhost-compare"))
        self.cache = str(cache)
        self.environment = dict(os.environ, SKILLHOST_CACHE=self.cache)

    def with_build(self, programs, cache):
        """Returns a setup with the same folders and other programs."""
        other = copy.copy(self)
        other.use(programs, cache)
        return other

    def script(self, name):
        return str(HERE / name)

    def driver(self, skills, tools=None):
        """Returns the command that starts `driver/` with these folders."""
        tools = tools and (str(tools[0]), tools[1])
        folders = {"skills": str(skills), "cache": self.cache, "tools": tools}
        return [self.compare, json.dumps(folders)]


def program(folder, name):
    found = folder / name
    if not os.access(found, os.X_OK):
        raise Failed("`%s` does not exist; build it with `cargo build --release`" % found)
    return found


def measure(options):
    # Import these here, because only a measurement needs the SDK.
    import builds
    import importlib.metadata
    import in_process
    import over_mcp
    import processes
    import scale
    counts = QUICK if options.quick else FULL
    rounds = max(counts["rounds"], builds.MIN_ROUNDS if options.against else 0)
    progress = Progress(sys.stderr)
    rows = []
    with tempfile.TemporaryDirectory(prefix="skillhost-compare-") as folder:
        progress.say("writing skills and components")
        # Each build has its own cache, so that none loads what the other one stored.
        cache = options.cache / "this" if options.against else options.cache
        setup = Setup(folder, options.programs.resolve(), create_folder(cache), counts)
        if options.against:
            other_cache = create_folder(options.cache / "other")
            other = setup.with_build(programs_of(options.against), other_cache)
            rows += builds.measure(setup, other, rounds, progress.say, options.limit)
        else:
            for part in (in_process, over_mcp, scale, processes):
                rows += part.measure(setup, rounds, progress.say)
    progress.say("")
    return {
        "made": datetime.date.today().isoformat(),
        "quick": options.quick,
        "builds": options.against is not None,
        "rounds": rounds,
        "machine": "%s, %d processors" % (processor(), os.cpu_count()),
        "python": platform.python_version(),
        "mcp": importlib.metadata.version("mcp"),
        "rows": rows,
    }


def create_folder(cache):
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    return cache.resolve()


def programs_of(checkout):
    """Returns the folder of the programs: the release folder of a checkout, or the folder itself."""
    built = checkout / "target/release"
    return (built if built.is_dir() else checkout).resolve()


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def arguments():
    parser = argparse.ArgumentParser(
        prog="bench/compare/run",
        description="Compares skillhost with reads without a sandbox, or two builds of it with "
                    "each other.")
    parser.add_argument("--against", type=pathlib.Path, metavar="CHECKOUT",
                        help="compare with another checkout, built there with `cargo build "
                             "--release`, or with the programs in a folder")
    parser.add_argument("--limit", type=float, default=1.05, metavar="RATIO",
                        help="with --against: the maximum time of a call in process, and the "
                             "maximum memory of an idle server, as multiples of the other build's "
                             "(default: %(default)s)")
    parser.add_argument("--quick", action="store_true",
                        help="a short run, with fewer rounds, skills and components")
    parser.add_argument("--output", choices=shown.FORMS, default="table",
                        help="form of the result (default: %(default)s)")
    parser.add_argument("--to", type=pathlib.Path, metavar="STEM",
                        help="write STEM.json and STEM.svg (default: target/compare/comparison, "
                             "target/compare/builds with --against, and nothing with --from)")
    parser.add_argument("--from", type=pathlib.Path, metavar="FILE", dest="earlier",
                        help="measure nothing, and show the JSON of an earlier run")
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE",
                        help="replace the table in a page of Markdown")
    parser.add_argument("--check", action="store_true",
                        help="exit with 1 if a target is not met")
    parser.add_argument("--programs", type=pathlib.Path, default=REPOSITORY / "target/release",
                        help="folder of skillhost and skillhost-compare (default: target/release)")
    parser.add_argument("--cache", type=pathlib.Path, default=REPOSITORY / "target/compare/cache",
                        help="folder for compiled components (default: target/compare/cache)")
    return parser.parse_args()


def write(stem, comparison):
    stem.parent.mkdir(parents=True, exist_ok=True)
    for form in ("json", "svg"):
        file = stem.with_name("%s.%s" % (stem.name, form))
        file.write_text(shown.FORMS[form](comparison), encoding="utf-8")


def main():
    options = arguments()
    try:
        if options.earlier:
            comparison = json.loads(options.earlier.read_text(encoding="utf-8"))
        else:
            comparison = measure(options)
            name = "builds" if options.against else "comparison"
            options.to = options.to or REPOSITORY / "target/compare" / name
        if options.to:
            write(options.to, comparison)
        if options.page:
            page = shown.with_table(options.page.read_text(encoding="utf-8"), comparison)
            options.page.write_text(page, encoding="utf-8")
        print(shown.FORMS[options.output](comparison), end="")
    except (Failed, OSError, ValueError) as error:
        print("error: %s" % error, file=sys.stderr)
        sys.exit(2)
    if options.check and any(row["met"] is False for row in comparison["rows"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
