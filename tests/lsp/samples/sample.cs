using System;
using System.Collections.Generic;
using Json = System.Text.Json.JsonSerializer;

namespace Example.Shop
{
    /// <summary>An order.</summary>
    [Serializable]
    public class Order : Base, IComparable<Order>
    {
        private readonly List<string> lines = new();

        public int Count => lines.Count;

        public string Name { get; set; } = "";

        public Order(IEnumerable<string> lines)
        {
            this.lines.AddRange(lines);
        }

        public int CompareTo(Order? other)
        {
            return Count.CompareTo(other?.Count ?? 0);
        }

        public static Order operator +(Order a, Order b) => new(a.lines);
    }

    public interface IVisitor
    {
        void Visit(Order order);
    }

    public enum State { Open, Closed }

    public record Line(string Name, int Count)
    {
        public int Twice() => Count * 2;
    }
}
