module.exports = { from: "index", other: require("./other.json").value };
