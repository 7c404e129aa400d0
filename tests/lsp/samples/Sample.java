package com.example.shop;

import java.util.List;
import java.util.Map;
import static com.example.util.Money.round;
import com.example.util.*;

/**
 * An order with its lines.
 */
@Deprecated
public class Sample extends Base implements Comparable<Sample> {
    private static final int LIMIT = 10;
    private final List<String> lines;

    public Sample(List<String> lines) {
        this.lines = List.copyOf(lines);
    }

    /** Total in cents. */
    @Override
    public int compareTo(Sample other) {
        return Integer.compare(lines.size(), other.lines.size());
    }

    public long total(Map<String, Long> prices) {
        long sum = 0;
        for (String line : lines) {
            sum += prices.getOrDefault(line, 0L);
        }
        return round(sum);
    }

    enum State {
        OPEN, CLOSED;

        boolean isOpen() {
            return this == OPEN;
        }
    }

    interface Visitor {
        void visit(Sample sample);
    }

    record Line(String name, int count) {
        int twice() {
            return count * 2;
        }
    }
}
