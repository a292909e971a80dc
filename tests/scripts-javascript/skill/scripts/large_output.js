for (let i = 0; i < 2000; i++) console.log(`line ${i} ${"x".repeat(40)}`);
