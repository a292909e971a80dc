// What the tests put in the place of this script.
