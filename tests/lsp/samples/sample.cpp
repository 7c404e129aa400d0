#include <string>
#include "shape.hpp"

namespace geometry {

template <typename T>
class Box : public Shape {
public:
    explicit Box(T width) : width_(width) {}
    virtual ~Box() = default;

    T area() const override
    {
        return width_ * width_;
    }

    bool operator==(const Box &other) const { return width_ == other.width_; }

private:
    T width_;
};

struct Point {
    int x = 0;
    int y = 0;
};

// Distance on a grid.
int distance(const Point &a, const Point &b)
{
    return std::abs(a.x - b.x) + std::abs(a.y - b.y);
}

std::string Label::text(int size) const
{
    return std::string(size, '*');
}

template <class T>
T twice(T value)
{
    return value + value;
}

}  // namespace geometry

extern "C" {
int exported(int value)
{
    return geometry::twice(value);
}
}
