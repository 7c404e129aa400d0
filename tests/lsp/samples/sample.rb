# frozen_string_literal: true

require "json"
require_relative "support/money"

module Shop
  LIMIT = 10

  # An order with lines.
  class Order < Base
    include Comparable
    attr_reader :lines

    def initialize(lines)
      @lines = lines
    end

    # Compares by size.
    def <=>(other)
      lines.size <=> other.lines.size
    end

    def self.empty
      new([])
    end

    private

    def secret?
      JSON.parse("{}").empty?
    end
  end
end

def total(orders)
  orders.sum { |order| order.lines.size }
end
