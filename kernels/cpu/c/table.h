/* table.h: the functions of one instruction set as a table. */
#include "vector.h"
#include "bfloat16.h"
#include "product.h"
#include "update.h"
#include "philox.h"
#include "fill.h"
#include "activation.h"
#include "epilogue.h"
#include "spread.h"
#include "sparse.h"
#include "layout.h"
#include "loss.h"
#include "output.h"
#include "entries.h"
#include "dense.h"
#include "backward.h"
#include "sample.h"
#include "norm.h"
#include "merge.h"
#include "wholerows.h"
#include "copymatrix.h"
#include "written.h"
#include "rank_exact.h"
#include "scores.h"
#include "rank_few.h"
#include "rank_screen.h"
#include "rank_wide.h"
#include "rank_int8.h"
#include "rank.h"
#include "rank_sparse.h"
#include "blend.h"
#include "neighborhood.h"
#include "panel.h"
#include "cholesky.h"
#include "factors.h"
#include "restricted.h"
#include "panelblocks.h"
#include "machine.h"

const kernels_t TABLE = {
    .name = NAME,
    .has_bfloat16 = HAS_BFLOAT16,
#define PHASE(function, arguments, flush) .function = function,
    PHASES(PHASE)
#undef PHASE
        .layer_workspace = layer_workspace,
    .rank_workspace = rank_workspace,
    .kept_size = kept_size,
};
