NAME = "another two"
