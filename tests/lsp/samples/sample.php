<?php

declare(strict_types=1);

namespace Example\Shop;

use Example\Util\Money;
use Example\Util\{Tax, Rate as TaxRate};

require_once __DIR__ . '/helpers.php';

const LIMIT = 10;

interface Visitor
{
    public function visit(Order $order): void;
}

/**
 * An order.
 */
#[Entity]
final class Order extends Base implements \Countable
{
    use Loggable;

    private array $lines = [];

    public function __construct(array $lines)
    {
        $this->lines = $lines;
    }

    public function count(): int
    {
        return count($this->lines);
    }

    public static function empty(): self
    {
        return new self([]);
    }
}

trait Loggable
{
    protected function log(string $text): void
    {
        echo $text;
    }
}

function total(Order ...$orders): int
{
    return array_sum(array_map(fn (Order $order) => $order->count(), $orders));
}
