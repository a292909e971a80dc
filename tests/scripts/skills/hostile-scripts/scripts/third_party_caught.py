import sys

try:
    import numpy
except ImportError:
    print("pip install numpy", file=sys.stderr)
    sys.exit(1)
