"""Numbers."""
import math
import statistics

values = [2.5, 3, 3, 4.75, 10]
print(statistics.mean(values), statistics.median(values), statistics.mode(values))
print(round(statistics.stdev(values), 6), statistics.quantiles(values, n=4))
print(math.isclose(math.sin(math.pi), 0, abs_tol=1e-12), math.comb(10, 3), math.fsum([0.1] * 10), math.inf)
