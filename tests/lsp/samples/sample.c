#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdio.h>
#include "list.h"

#define LIMIT 16
#define SQUARE(x) ((x) * (x))

typedef struct point {
    int x;
    int y;
} point_t;

enum colour { RED, GREEN };

static int counter = 0;

/* Adds two points. */
point_t point_add(point_t a, point_t b)
{
    point_t sum = { a.x + b.x, a.y + b.y };
    counter++;
    return sum;
}

static const char *name_of(enum colour c)
{
    switch (c) {
    case RED:
        return "red";
    default:
        return "green";
    }
}

#ifdef DEBUG
void dump(const struct point *p)
{
    printf("%d %d %s\n", p->x, p->y, name_of(RED));
}
#endif

#endif
