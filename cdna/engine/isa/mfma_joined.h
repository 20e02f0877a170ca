// Matrix products that are done together with those behind them: program/joined_products.cpp finds them.
#pragma once
#include "core.h"

constexpr int MOST_JOINED = 4;

// Handlers of such a product, by the one that does it alone: of the first, where `offset1` leads from one to the next, and of
// the others. Null: it gains nothing.
Handler joined_product(Handler alone, bool first);
