"""Reads settings from a file of environment variables."""
import os
import pathlib

from dotenv import dotenv_values, load_dotenv

path = pathlib.Path("settings.env")
path.write_text("# of the report\nTITLE='Sales of May'\nLIMIT=20\nHEAD=${TITLE}: ${LIMIT} rows\n")
print(dict(dotenv_values(path)))
print(load_dotenv(path), os.environ["HEAD"])
print(load_dotenv(), os.environ.get("MISSING"))
