import subprocess

print(subprocess.run(["git", "status"], capture_output=True).stdout)
