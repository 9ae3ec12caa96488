/* table.h: the functions of one instruction set as a table; with BASE, only OWN_PHASES are its own. */
#ifdef BASE
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
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

#ifdef BASE
extern kernels_t BASE;
#endif

kernels_t TABLE = {
    .name = NAME,
    .has_bfloat16 = HAS_BFLOAT16,
#define PHASE(function, arguments, flush) .function = function,
#ifdef BASE
    .base = &BASE,
    OWN_PHASES(PHASE)
#else
    PHASES(PHASE)
#endif
#undef PHASE
        .layer_workspace = layer_workspace,
    .rank_workspace = rank_workspace,
    .kept_size = kept_size,
};
