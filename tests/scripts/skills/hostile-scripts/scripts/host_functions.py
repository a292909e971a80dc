for name in ("wit_world", "componentize_py_runtime", "skill_runner", "tool"):
    try:
        __import__(name)
        print(name, "imported")
    except ImportError:
        pass
import sys

print(sorted(name for name in sys.modules if "skill" in name or "wit" in name or "componentize" in name))
