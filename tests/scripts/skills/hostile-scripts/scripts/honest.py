"""Uses modules of the library, and of its skill in all forms."""
import json
from helpers import one
from parts import two

import helper

print(json.dumps({"honest": [helper.NAME, one.NAME, two.NAME]}))
