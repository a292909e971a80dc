// Requests that the operator has not granted.
const [address] = process.argv.slice(2);
try {
  await fetch(address);
} catch (error) {
  console.log(error.name, error.message, error.cause.code);
  console.log(error.cause.message);
}
await fetch(address);
