// Asks AMD's analytical GEMM model (rocm-origami) for latencies: a line of standard input has a card and a kernel, a
// line of standard output its cycles. Built by origami.py with the package's sources; no device is asked for.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>

#include "origami/gemm.hpp"
#include "origami/hardware.hpp"
#include "origami/types.hpp"

namespace {

using origami::dim3_t;
using origami::hardware_t;

size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }

}  // namespace

int main() {
  std::string arch, in, out, a_order, b_order;
  size_t cus, lds_bytes, l2_bytes, split;
  int khz, scale_block, occupancy;
  dim3_t size, tile, instruction;
  while (std::cin >> arch >> cus >> lds_bytes >> l2_bytes >> khz >> in >> out >> a_order >> b_order >> scale_block >>
         size.m >> size.n >> size.k >> tile.m >> tile.n >> tile.k >> instruction.m >> instruction.n >> instruction.k >>
         occupancy >> split) {
    const auto card =
        hardware_t::get_hardware_for_arch(hardware_t::arch_name_to_enum(arch), cus, lds_bytes, l2_bytes, khz);
    origami::problem_t problem;
    problem.size = size;
    problem.a_transpose = a_order == "T" ? origami::transpose_t::T : origami::transpose_t::N;
    problem.b_transpose = b_order == "T" ? origami::transpose_t::T : origami::transpose_t::N;
    const bool fnuz = in == "f8" && arch == "gfx942";  // its name has no text of its own
    const auto operands = fnuz ? origami::data_type_t::Float8_fnuz : origami::string_to_datatype(in);
    problem.a_dtype = problem.b_dtype = problem.mi_dtype = operands;
    problem.c_dtype = problem.d_dtype = origami::string_to_datatype(out);
    problem.a_mx_block_size = problem.b_mx_block_size = scale_block;
    origami::config_t config;
    config.mt = tile;
    config.mi = instruction.m ? instruction : card.get_recommended_matrix_instruction(problem.mi_dtype);
    config.occupancy = occupancy;
    config.workgroup_mapping = std::max(1, static_cast<int>(std::ceil(std::sqrt(cus / card.NUM_XCD))));
    // As compute_total_latency does it, with the kernel's own split of k instead of the one it would choose, and
    // without the cases that it takes out of a selection before it looks at them.
    const size_t groups = ceil_div(size.m, tile.m) * ceil_div(size.n, tile.n) * split;
    const size_t active = std::min(groups, cus), rounds = ceil_div(groups, cus);
    std::cout << origami::compute_timestep_latency(problem, card, config, active, split) * rounds << std::endl;
  }
}
