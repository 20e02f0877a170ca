// Code in which matrix products that follow each other on the same sums are done together.
#pragma once
#include "program.h"

// A copy of a program's code, or null: nothing is gained. Registers hold the sums of the last such product from the first
// on, so it is not for who looks at them between two instructions.
Inst* joined_code(Program& p);
