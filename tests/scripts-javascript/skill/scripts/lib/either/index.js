exports.candidate = "second";
