"""Finds modules in another folder."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vendor"))
import extra

print(extra.VALUE, sys.argv[0], os.path.basename(sys.path[1]), os.getcwd() == os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
