#pragma once
#include <ck/utility/integral_constant.hpp>
