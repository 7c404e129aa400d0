package com.example.shop

import com.example.util.Money
import kotlin.math.max as largest

const val LIMIT = 10

/** An order. */
data class Order(val lines: List<String>) : Comparable<Order> {
    val size: Int
        get() = lines.size

    override fun compareTo(other: Order): Int {
        return size.compareTo(other.size)
    }

    companion object {
        fun empty(): Order = Order(emptyList())
    }
}

interface Visitor {
    fun visit(order: Order)
}

object Registry {
    private val orders = mutableListOf<Order>()

    fun register(order: Order) {
        orders.add(order)
    }
}

// Totals in cents.
fun total(orders: List<Order>): Int {
    return orders.sumOf { largest(it.size, 1) }
}

fun String.shout(): String = uppercase() + "!"
