"""Reports for the owner."""

from shop.prices import Product, format_cents, price_with_tax


def average(numbers):
    total = 0
    for number in numbers:
        total = total + number
    return total / len(numbers)


def describe(product: Product) -> str:
    """Name and gross price of one piece."""
    return f"{product.name}: {format_cents(price_with_tax(product))}"
