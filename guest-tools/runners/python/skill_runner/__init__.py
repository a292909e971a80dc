"""Runs scripts of skills, and tells beforehand which will run. `tool.py` makes the tools of it.

| module | holds |
|---|---|
| `baked` | every module that a script can import: they are imported when the component is built |
| `modules` | the modules of the skill, as the host has them |
| `lacks` | what the sandbox does not have, and what would do instead |
| `streams` | stdin, stdout and stderr of a script |
| `execute` | one run of a script |
| `heap` | the memory that a call starts from |
| `judge/` | the verdict on a script that has not run |
"""
