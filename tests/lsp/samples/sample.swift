import Foundation

let limit = 10

protocol Visitor {
    func visit(_ order: Order)
}

/// An order.
@available(macOS 12, *)
public final class Order: Base, Comparable {
    var lines: [String] = []

    init(lines: [String]) {
        self.lines = lines
    }

    static func < (left: Order, right: Order) -> Bool {
        return left.lines.count < right.lines.count
    }

    func total(prices: [String: Int]) -> Int {
        return lines.reduce(0) { $0 + (prices[$1] ?? 0) }
    }
}

struct Point {
    var x = 0

    mutating func move(by amount: Int) {
        x += amount
    }
}

enum State {
    case open, closed

    var isOpen: Bool {
        return self == .open
    }
}

extension Point {
    func twice() -> Point {
        return Point(x: x * 2)
    }
}

// Sums them all.
func sum(_ orders: [Order]) -> Int {
    return orders.map { $0.lines.count }.reduce(0, +)
}
