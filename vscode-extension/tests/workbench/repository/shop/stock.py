"""What is in the warehouse."""

from shop.prices import Product


class OutOfStock(Exception):
    """There are fewer pieces than were asked for."""


class Warehouse:
    """Counts pieces of products."""

    def __init__(self) -> None:
        self._pieces: dict[str, int] = {}

    def receive(self, product: Product, pieces: int) -> None:
        """Add pieces that were delivered."""
        self._pieces[product.name] = self._pieces.get(product.name, 0) + pieces

    def reserve(self, product: Product, pieces: int) -> None:
        """Take pieces out. Raises `OutOfStock` when there are too few."""
        held = self._pieces.get(product.name, 0)
        if held < pieces:
            raise OutOfStock(f"{product.name}: {held} in stock, {pieces} wanted")
        self._pieces[product.name] = held - pieces
