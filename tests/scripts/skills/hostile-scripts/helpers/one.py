NAME = "another one"
