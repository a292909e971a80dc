exports.candidate = "first";
