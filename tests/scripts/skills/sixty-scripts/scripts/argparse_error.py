"""Ends with the exit code of argparse."""
import argparse
import sys

parser = argparse.ArgumentParser(prog="tool")
parser.add_argument("--count", type=int, required=True)
sys.stderr = open("/dev/null", "w")
parser.parse_args()
