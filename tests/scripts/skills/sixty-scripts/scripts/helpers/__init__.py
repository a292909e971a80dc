"""Helpers of several scripts."""
from .money import euros
