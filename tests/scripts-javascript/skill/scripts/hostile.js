// What the tests put in the place of this module.
require("./lib/format");
