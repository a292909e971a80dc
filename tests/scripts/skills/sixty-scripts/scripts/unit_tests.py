"""Tests with unittest."""
import io
import re
import unittest
from unittest import mock

from helpers import euros


class Euros(unittest.TestCase):
    def test_rounds(self):
        self.assertEqual(euros(0.005), "0.01 EUR")

    def test_fails(self):
        with self.subTest(value=3):
            self.assertEqual(euros(3), "3 EUR")

    @unittest.skip("later")
    def test_later(self):
        pass

    def test_mock(self):
        with mock.patch("helpers.money.Decimal", side_effect=ValueError):
            self.assertRaises(ValueError, euros, 1)


stream = io.StringIO()
result = unittest.TextTestRunner(stream=stream, verbosity=2).run(unittest.defaultTestLoader.loadTestsFromTestCase(Euros))
print(result.testsRun, len(result.failures), len(result.skipped), result.wasSuccessful())
print(re.search(r"AssertionError: .*", stream.getvalue()).group())
