"""Objects as bytes."""
import copy
import enum
import pickle


class Colour(enum.Enum):
    RED = 1
    BLUE = enum.auto()


class Box:
    def __init__(self, things):
        self.things = things


box = pickle.loads(pickle.dumps(Box([Colour.RED, {"a": (1, 2)}])))
print(type(box).__module__, box.things, Colour(2), copy.deepcopy(box).things == box.things)
with open("box.pickle", "wb") as file:
    pickle.dump(box.things[1], file, protocol=4)
print(pickle.load(open("box.pickle", "rb")))
