NAME = "colorsys"
