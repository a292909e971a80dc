import builtins
import json
import sys

json.dumps = json.loads = builtins.print = None
sys.modules.clear()
sys.meta_path.clear()
sys.excepthook = lambda *_: 1 / 0
sys.stdout.write("still here\n")
raise ValueError("and gone")
