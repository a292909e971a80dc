"""A module with the name of one of Python's own."""
WHO = "the skill's own"
