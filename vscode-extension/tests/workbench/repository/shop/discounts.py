"""Discounts that a cart may get."""

LOYALTY_THRESHOLD = 10_000


def loyalty_discount(total_cents: int, years: int) -> int:
    """Discount in cents for customers who have been with us for some years: 1% a year, 5% at most.

    Carts under the threshold get none.
    """
    if total_cents < LOYALTY_THRESHOLD:
        return 0
    return total_cents * min(years, 5) // 100


def coupon_discount(total_cents: int, code: str) -> int:
    """Discount in cents for a coupon code such as SAVE10; unknown codes give nothing."""
    if not code.startswith("SAVE") or not code[4:].isdigit():
        return 0
    return total_cents * min(int(code[4:]), 50) // 100
