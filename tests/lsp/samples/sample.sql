-- Orders and what they hold.
CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    created TIMESTAMP DEFAULT CURRENT_TIMESTAMP
);

CREATE INDEX orders_name ON orders (name);

CREATE VIEW open_orders AS
SELECT id, name
FROM orders
WHERE created > '2026-01-01';

INSERT INTO orders (id, name) VALUES (1, 'first'), (2, 'second');

CREATE FUNCTION total(order_id INTEGER) RETURNS INTEGER AS $$
BEGIN
    RETURN (SELECT count(*) FROM orders WHERE id = order_id);
END;
$$ LANGUAGE plpgsql;
