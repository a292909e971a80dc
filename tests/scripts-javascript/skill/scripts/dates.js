const d = new Date(Date.UTC(2024, 1, 29, 13, 5, 9, 7));
console.log(d.toISOString(), d.getUTCDay(), d.toJSON(), Date.parse("2024-02-30") , new Date("2024-03-10T12:00:00+02:00").getTime(), new Date("nope").getTime());
d.setUTCFullYear(2025); console.log(d.toISOString(), JSON.stringify({ d }), new Date(2020, 0, 31).getMonth(), Date.UTC(1970, 0, 1), d.toUTCString());
console.log([new Date(8.64e15), new Date(NaN)], typeof Date.now(), d > new Date(0), new Date("2024-01-15").toISOString().slice(0, 10));
