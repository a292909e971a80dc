const EventEmitter = require("events");
const { once } = EventEmitter;
class Door extends EventEmitter {}
const door = new Door();
door.on("open", (who, ...rest) => console.log("opened by", who, rest));
door.once("open", () => console.log("only once"));
door.prependListener("open", () => console.log("first"));
console.log(door.emit("open", "Ada", 1), door.emit("open", "Bob"), door.emit("none"), door.listenerCount("open"), door.eventNames());
try { door.emit("error", new Error("unhandled")); } catch (error) { console.log(error.message); }
once(door, "later").then(([value]) => console.log("later:", value));
setTimeout(() => door.emit("later", 42), 1);
