"""Runs scripts of skills, and says which scripts will run. `tool.py` defines the tools.

| module | holds |
|---|---|
| `baked` | the library modules that a script can import; the build imports them |
| `modules` | the import of the skill's own modules from the host |
| `unsupported` | the features that the sandbox does not support, and what to use instead |
| `streams` | stdin, stdout and stderr of a script |
| `execute` | the run of a script |
| `heap` | the memory with which each call starts |
| `judge/` | the verdict on a script without a run |
"""
