"""A module beside the scripts."""
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def data(name):
    return ROOT / "data" / name
