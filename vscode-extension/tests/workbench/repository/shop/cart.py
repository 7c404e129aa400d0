"""What a customer wants to buy."""

from shop.discounts import coupon_discount
from shop.prices import Product, format_cents, price_with_tax


class Cart:
    """Products and how many of each."""

    def __init__(self) -> None:
        self.lines: list[tuple[Product, int]] = []

    def add(self, product: Product, quantity: int = 1) -> None:
        """Put pieces of a product into the cart."""
        self.lines.append((product, quantity))

    def total(self, coupon: str = "") -> int:
        """Gross total in cents, less the coupon's discount."""
        total = sum(price_with_tax(product, quantity) for product, quantity in self.lines)
        return total - coupon_discount(total, coupon)

    def summary(self) -> str:
        """The total as people read it."""
        return format_cents(self.total())
