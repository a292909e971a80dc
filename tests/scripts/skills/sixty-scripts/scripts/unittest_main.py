"""Ends as unittest.main does."""
import sys
import unittest


class Test(unittest.TestCase):
    def test_one(self):
        self.assertTrue([])


sys.stderr = sys.stdout
sys.stdout = None
unittest.main(argv=["x", "-q"], testRunner=unittest.TextTestRunner(stream=open("/dev/null", "w")))
