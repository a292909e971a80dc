"""Exact numbers."""
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction

print(Decimal("0.1") + Decimal("0.2"), Decimal(1) / Decimal(7), round(Decimal("2.675"), 2))
with localcontext() as context:
    context.prec = 50
    print(Decimal(2).sqrt())
print(getcontext().prec, Fraction(3, 4) + Fraction("0.125"), Fraction(0.5).limit_denominator(), sum([0.1] * 3))
