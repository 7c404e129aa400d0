"""Prices, in cents."""

from dataclasses import dataclass

TAX_RATES = {"food": 0.07, "books": 0.07, "other": 0.19}


@dataclass(frozen=True)
class Product:
    """Something that is sold."""

    name: str
    net_cents: int
    kind: str = "other"


def price_with_tax(product: Product, quantity: int = 1) -> int:
    """Gross price of `quantity` pieces, in cents, rounded to the nearest cent."""
    rate = TAX_RATES.get(product.kind, TAX_RATES["other"])
    return round(product.net_cents * quantity * (1 + rate))


def format_cents(cents: int) -> str:
    """Cents as people write them: 1234 -> 12.34 EUR."""
    return f"{cents // 100}.{cents % 100:02d} EUR"
