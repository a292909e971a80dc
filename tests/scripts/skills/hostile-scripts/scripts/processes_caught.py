import subprocess
import sys

try:
    subprocess.run(["git", "status"], check=True)
except (OSError, subprocess.CalledProcessError):
    sys.exit("git is needed")
