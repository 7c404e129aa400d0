package com.example.shop

import com.example.util.Money
import scala.collection.mutable.{ListBuffer, Map => Dictionary}

/** An order. */
case class Order(lines: List[String]) extends Ordered[Order] {
  val size: Int = lines.size

  override def compare(other: Order): Int = {
    size.compareTo(other.size)
  }

  private def total(prices: Map[String, Int]): Int =
    lines.map(prices.getOrElse(_, 0)).sum
}

object Order {
  def empty: Order = Order(Nil)

  def parse(text: String): Order = {
    val buffer = ListBuffer.empty[String]
    text.split(",").foreach(buffer += _)
    Order(buffer.toList)
  }
}

trait Visitor {
  def visit(order: Order): Unit
}
