import { readFileSync } from "node:fs";
export class Square {
  #side;
  constructor(side) {
    this.#side = side;
  }
  get area() {
    return this.#side ** 2;
  }
}
export let counter = 0;
export function increment() {
  counter += 1;
}
export default function describe(shape) {
  return `${shape.constructor.name} of ${shape.area}`;
}
export const config = JSON.parse(readFileSync(new URL("../../data/config.json", import.meta.url), "utf8"));
