//go:build !nocuda && linux && amd64

/* slots.S: the driver's functions as jumps through slots, which loader.c fills when a driver is asked for.
 *
 * The section is named explicitly: code that landed in .data would crash at the first call. The names are hidden, so that
 * neither another library of the process nor the driver itself can take these for the driver's. */

#define SYMBOL(name)     \
  .balign 16;            \
  .globl name;           \
  .hidden name;          \
  .type name, @function; \
  name: endbr64;         \
  jmp *slot_##name(%rip); \
  .size name, .-name;

  .section .text.dsstne_driver, "ax", @progbits
SYMBOL(cuInit)
#include "symbols.h"

#undef SYMBOL
#define SYMBOL(name) slot_##name: .quad dsstne_driver_no_device;

  .section .data.dsstne_driver, "aw", @progbits
  .balign 8
slot_cuInit: .quad dsstne_driver_success
  .globl dsstne_driver_slots
  .hidden dsstne_driver_slots
dsstne_driver_slots:
#include "symbols.h"

  .section .note.GNU-stack, "", @progbits
