"""Commands below a command."""
import argparse

parser = argparse.ArgumentParser()
commands = parser.add_subparsers(dest="command", required=True)
add = commands.add_parser("add")
add.add_argument("numbers", type=int, nargs="+")
add.set_defaults(run=lambda args: sum(args.numbers))
say = commands.add_parser("say")
say.add_argument("--times", type=int, default=1)
say.add_argument("what")
say.set_defaults(run=lambda args: " ".join([args.what] * args.times))
args = parser.parse_args()
print(args.run(args))
