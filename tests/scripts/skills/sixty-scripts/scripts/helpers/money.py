"""Amounts of money."""
from decimal import ROUND_HALF_UP, Decimal


def euros(value):
    return f"{Decimal(str(value)).quantize(Decimal('0.01'), ROUND_HALF_UP)} EUR"
