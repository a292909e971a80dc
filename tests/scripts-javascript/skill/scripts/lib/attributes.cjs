exports.load = async () => {
  const { default: config } = await import("../../data/config.json", { with: { type: "json" } });
  return config.name;
};
