from shop.prices import Product, price_with_tax


def test_food_has_the_lower_tax():
    assert price_with_tax(Product("bread", 100, "food")) == 107
